//! The little of DER (X.690) that a CSR and a PKCS#8 key need.

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

#[cfg(test)]
mod tests {
    use super::*;

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
