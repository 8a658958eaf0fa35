//! Object identifiers that are written longer than need be (X.690, section 8.19.2): x509-cert lets them pass, OpenSSL does
//! not.

use crate::der::take;

const OBJECT_IDENTIFIER: u8 = 0x06;
const CONSTRUCTED: u8 = 0x20;

/// Whether all of them are in their shortest form, and every constructed element holds elements. Nothing recurses here:
/// a deeply nested certificate costs no more than a flat one.
pub fn are_shortest(der: &[u8]) -> bool {
    let mut pending = vec![der];
    while let Some(mut rest) = pending.pop() {
        while let Some(&tag) = rest.first() {
            let Some((contents, after)) = take(tag, rest) else {
                return false;
            };
            if tag == OBJECT_IDENTIFIER && !is_shortest(contents) {
                return false;
            }
            if tag & CONSTRUCTED != 0 {
                pending.push(contents);
            }
            rest = after;
        }
    }
    true
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

    #[test]
    fn a_padded_or_unfinished_arc_is_found_at_any_depth() {
        assert!(are_shortest(&[0x30, 0x05, 0x06, 0x03, 0x55, 0x1d, 0x11]));
        assert!(are_shortest(&[0x06, 0x03, 0x2a, 0x81, 0x00]));
        for contents in [&[0x80, 0x55][..], &[0x55, 0x80, 0x01], &[0x55, 0x81], &[]] {
            assert!(!is_shortest(contents), "{contents:x?}");
            let inner = crate::der::element(OBJECT_IDENTIFIER, &[contents]);
            let middle = crate::der::element(0xa0, &[&inner]);
            assert!(!are_shortest(&crate::der::element(0x30, &[&middle])));
        }
    }

    #[test]
    fn nesting_as_deep_as_a_chain_may_be_long_is_walked() {
        let mut der = Vec::new();
        for _ in 0..8_000 {
            der = crate::der::element(0x30, &[&der]);
        }
        assert!(are_shortest(&der));
    }
}
