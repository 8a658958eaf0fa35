//! The part of DER (X.690) that a CSR and a PKCS#8 key need, and a check of the form.

pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const INTEGER: u8 = 0x02;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// One element whose contents are `parts` in their order.
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut der = Vec::with_capacity(length + 6);
    der.push(tag);
    push_length(&mut der, length);
    for part in parts {
        der.extend_from_slice(part);
    }
    der
}

fn push_length(der: &mut Vec<u8>, length: usize) {
    if length < 0x80 {
        der.push(length as u8);
        return;
    }
    let bytes = length.to_be_bytes();
    let significant = &bytes[length.leading_zeros() as usize / 8..];
    der.push(0x80 | significant.len() as u8);
    der.extend_from_slice(significant);
}

/// Whether every length is definite and minimal, and no set is empty: aws-lc accepts other forms, which Envoy's library
/// refuses.
pub fn is_der(element: &[u8]) -> bool {
    let mut pending = vec![element];
    while let Some(mut elements) = pending.pop() {
        while let [tag, rest @ ..] = elements {
            let Some((contents, next)) = split_contents(rest).filter(|_| tag & 0x1f != 0x1f) else {
                return false;
            };
            if *tag == SET && contents.is_empty() {
                return false;
            }
            if tag & CONSTRUCTED != 0 {
                pending.push(contents);
            }
            elements = next;
        }
    }
    true
}

/// Whether GeneralNames (RFC 5280, section 4.2.1.6) are DER, each string in one part.
pub fn are_der_names(names: &[u8]) -> bool {
    let Some((mut elements, [])) = names
        .get(1..)
        .and_then(split_contents)
        .filter(|_| is_der(names))
    else {
        return false;
    };
    while let [tag, rest @ ..] = elements {
        let in_parts = matches!(tag, 0xa1 | 0xa2 | 0xa6..=0xa8);
        let Some((_, next)) = split_contents(rest).filter(|_| !in_parts) else {
            return false;
        };
        elements = next;
    }
    true
}

const CONSTRUCTED: u8 = 0x20;

/// Splits off the contents, whose length stands at the start.
fn split_contents(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return rest.split_at_checked(first.into());
    }
    let (length, rest) = rest.split_at_checked((first & 0x7f).into())?;
    let is_shortest = (1..=4).contains(&length.len()) && length[0] != 0;
    let length = length
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    rest.split_at_checked(length)
        .filter(|_| is_shortest && length >= 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_padded_indefinite_or_too_long_is_found_at_any_depth() {
        let long = element(OCTET_STRING, &[&[7; 200]]);
        for good in [&[][..], &[5, 0], &long] {
            assert!(is_der(&element(SEQUENCE, &[&element(0xa0, &[good])])));
        }
        let padded = [&[0x04, 0x82, 0][..], &long[2..]].concat();
        for bad in [
            &[5][..],
            &[4, 1],
            &[4, 0x81, 1, 7],
            &[0x30, 0x80, 0, 0],
            &[0x1f, 1, 0],
            &padded,
        ] {
            assert!(
                !is_der(&element(SEQUENCE, &[&element(0xa0, &[bad])])),
                "{bad:x?}"
            );
        }
    }

    #[test]
    fn a_set_has_elements() {
        assert!(is_der(&element(SEQUENCE, &[&element(SET, &[&[4, 1, 7]])])));
        assert!(!is_der(&element(SEQUENCE, &[&element(SET, &[])])));
    }

    #[test]
    fn nesting_as_deep_as_a_chain_may_be_long_is_walked() {
        let nested = (0..8_000).fold(Vec::new(), |der, _| element(SEQUENCE, &[&der]));
        assert!(is_der(&nested));
    }

    #[test]
    fn the_length_has_as_few_bytes_as_it_needs() {
        let cases: [(usize, &[u8]); 7] = [
            (0, &[0]),
            (1, &[1]),
            (0x7f, &[0x7f]),
            (0x80, &[0x81, 0x80]),
            (0xff, &[0x81, 0xff]),
            (0x100, &[0x82, 1, 0]),
            (0x1_0000, &[0x83, 1, 0, 0]),
        ];
        for (length, header) in cases {
            let contents = vec![7; length];
            let der = element(
                OCTET_STRING,
                &[&contents[..length / 2], &contents[length / 2..]],
            );
            assert_eq!(der, [&[OCTET_STRING], header, &contents].concat());
        }
    }
}
