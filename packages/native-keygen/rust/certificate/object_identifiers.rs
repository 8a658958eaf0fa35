//! Object identifiers that are written longer than need be (X.690, section 8.19.2): x509-cert lets them pass, OpenSSL does
//! not.

use x509_cert::der::{Decode, Header, Reader, SliceReader, Tag};

/// Whether all of them are in their shortest form, and every constructed element holds elements. Nothing recurses here:
/// a deeply nested certificate costs no more than a flat one.
pub fn are_shortest(der: &[u8]) -> bool {
    let mut pending = Vec::new();
    let mut next = Some(der);
    while let Some(elements) = next {
        let Ok(mut reader) = SliceReader::new(elements) else {
            return false;
        };
        while !reader.is_finished() {
            let Some((tag, contents)) = next_element(&mut reader) else {
                return false;
            };
            if tag == Tag::ObjectIdentifier && !is_shortest(contents) {
                return false;
            }
            if tag.is_constructed() {
                pending.push(contents);
            }
        }
        next = pending.pop();
    }
    true
}

fn next_element<'a>(reader: &mut SliceReader<'a>) -> Option<(Tag, &'a [u8])> {
    let header = Header::decode(reader).ok()?;
    let contents = reader.read_slice(header.length()).ok()?;
    Some((header.tag(), contents))
}

/// No arc starts with a zero digit (base 128, the top bit says that more follow), and the last one ends.
pub fn is_shortest(contents: &[u8]) -> bool {
    let ends = contents.last().is_some_and(|byte| byte & 0x80 == 0);
    let mut arc_starts = true;
    ends && contents.iter().all(|byte| {
        let padded = arc_starts && *byte == 0x80;
        arc_starts = byte & 0x80 == 0;
        !padded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{SEQUENCE, element};

    #[test]
    fn a_padded_or_unfinished_arc_is_found_at_any_depth() {
        assert!(are_shortest(&[0x30, 0x05, 0x06, 0x03, 0x55, 0x1d, 0x11]));
        assert!(are_shortest(&[0x06, 0x03, 0x2a, 0x81, 0x00]));
        for contents in [&[0x80, 0x55][..], &[0x55, 0x80, 0x01], &[0x55, 0x81], &[]] {
            assert!(!is_shortest(contents), "{contents:x?}");
            let inner = element(0x06, &[contents]);
            let middle = element(0xa0, &[&inner]);
            assert!(!are_shortest(&element(SEQUENCE, &[&middle])));
        }
    }

    #[test]
    fn nesting_as_deep_as_a_chain_may_be_long_is_walked() {
        let mut der = Vec::new();
        for _ in 0..8_000 {
            der = element(SEQUENCE, &[&der]);
        }
        assert!(are_shortest(&der));
    }
}
