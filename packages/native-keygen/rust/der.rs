//! The little of DER (X.690) that a CSR and a PKCS#1 key need.

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

/// The contents of the element with `tag` at the start of `der`, and what follows it.
pub fn take(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0, |length, &byte| length << 8 | usize::from(byte));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_back_at_every_form_of_length() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1_0000] {
            let contents = vec![7; length];
            let mut der = element(OCTET_STRING, &[&contents]);
            der.push(9);
            assert_eq!(
                take(OCTET_STRING, &der),
                Some((contents.as_slice(), [9].as_slice()))
            );
        }
    }

    #[test]
    fn a_wrong_tag_and_a_truncated_element_are_refused() {
        let der = element(OCTET_STRING, &[&[1, 2, 3]]);
        assert_eq!(take(SEQUENCE, &der), None);
        assert_eq!(take(OCTET_STRING, &der[..4]), None);
        assert_eq!(take(OCTET_STRING, &[OCTET_STRING]), None);
        assert_eq!(take(OCTET_STRING, &[OCTET_STRING, 0x82, 1]), None);
        assert_eq!(take(OCTET_STRING, &[OCTET_STRING, 0x80]), None);
    }
}
