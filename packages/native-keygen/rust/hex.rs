//! Bytes as hexadecimal text.

pub fn lower(bytes: &[u8]) -> String {
    digits(bytes, b"0123456789abcdef")
}

pub fn upper(bytes: &[u8]) -> String {
    digits(bytes, b"0123456789ABCDEF")
}

fn digits(bytes: &[u8], alphabet: &[u8; 16]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(alphabet[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(lower(&bytes), expected);
        assert_eq!(upper(&bytes), expected.to_ascii_uppercase());
        assert_eq!(lower(&[]), "");
    }
}
