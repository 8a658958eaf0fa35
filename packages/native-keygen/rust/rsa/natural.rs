//! Secret natural numbers: 64-bit words, least significant first. Time and addresses depend on the number of words,
//! never on their values.

use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use super::secrecy::public;

/// Wiped when it is dropped; its length is fixed from the start, so that no copy stays behind where a vector grew.
pub type Natural = Zeroizing<Vec<u64>>;

pub fn zero(words: usize) -> Natural {
    Zeroizing::new(vec![0; words])
}

pub fn from_word(word: u64, words: usize) -> Natural {
    let mut natural = zero(words);
    natural[0] = word;
    natural
}

pub fn power_of_two(exponent: usize, words: usize) -> Natural {
    let mut natural = zero(words);
    natural[exponent / 64] = 1 << (exponent % 64);
    natural
}

pub fn from_bytes(little_endian: &[u8]) -> Natural {
    let mut natural = zero(little_endian.len().div_ceil(8));
    for (index, &byte) in little_endian.iter().enumerate() {
        natural[index / 8] |= u64::from(byte) << (8 * (index % 8));
    }
    natural
}

pub fn to_bytes(natural: &[u64]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(vec![0; 8 * natural.len()]);
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(natural) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// `a` where `choice` is true, `b` where it is false. Both have the same number of words.
pub fn selected(choice: Choice, a: &[u64], b: &[u64]) -> Natural {
    let words = b.iter().zip(a);
    Zeroizing::new(
        words
            .map(|(b, a)| u64::conditional_select(b, a, choice))
            .collect(),
    )
}

/// `a + small`, which must fit into the words of `a`.
pub fn plus(a: &[u64], small: u64) -> Natural {
    let mut sum = zero(a.len());
    let mut carry = small;
    for (sum, &word) in sum.iter_mut().zip(a) {
        let (word, overflow) = word.overflowing_add(carry);
        *sum = word;
        carry = overflow.into();
    }
    assert!(public(carry) == 0, "a sum that fits");
    sum
}

/// `a - b` modulo 2^(64 words), and 1 if b is the larger one. Both have the same number of words.
pub fn minus(a: &[u64], b: &[u64]) -> (Natural, u64) {
    let mut difference = zero(a.len());
    let mut borrow = 0;
    for ((difference, &a), &b) in difference.iter_mut().zip(a).zip(b) {
        let (word, first) = a.overflowing_sub(b);
        let (word, second) = word.overflowing_sub(borrow);
        *difference = word;
        borrow = u64::from(first) | u64::from(second);
    }
    (difference, borrow)
}

pub fn less_than(a: &[u64], b: &[u64]) -> bool {
    minus(a, b).1 == 1
}

/// `odd - 1`.
pub fn even_below(odd: &[u64]) -> Natural {
    let mut even = Zeroizing::new(odd.to_vec());
    even[0] &= !1;
    even
}

pub fn times(a: &[u64], b: &[u64]) -> Natural {
    let mut product = zero(a.len() + b.len());
    for (offset, &a) in a.iter().enumerate() {
        let mut carry = 0;
        for (product, &b) in product[offset..].iter_mut().zip(b) {
            let sum = u128::from(a) * u128::from(b) + u128::from(*product) + u128::from(carry);
            *product = sum as u64;
            carry = (sum >> 64) as u64;
        }
        product[offset + b.len()] = carry;
    }
    product
}

/// `a / odd` where it divides without remainder: word by word from the low end, by the inverse of `odd` modulo 2^64
/// (T. Jebelean, An algorithm for exact division, 1993). A division instruction's time would depend on `a`.
pub fn divided_exactly(a: &[u64], odd: u64) -> Natural {
    let inverse = inverse_modulo_2_64(odd);
    let mut quotient = zero(a.len());
    let mut borrow = 0;
    for (quotient, &word) in quotient.iter_mut().zip(a) {
        let (difference, below) = word.overflowing_sub(borrow);
        *quotient = difference.wrapping_mul(inverse);
        let back = u128::from(*quotient) * u128::from(odd);
        borrow = (back >> 64) as u64 + u64::from(below);
    }
    quotient
}

/// `a / 2^bits` for fewer than 64 bits.
pub fn shifted_right(a: &[u64], bits: u32) -> Natural {
    let mut shifted = zero(a.len());
    for (index, word) in shifted.iter_mut().enumerate() {
        let above = a.get(index + 1).copied().unwrap_or(0);
        *word = (a[index] >> bits) | (above << 1 << (63 - bits));
    }
    shifted
}

/// Newton's iteration: each step doubles the number of right bits, and odd is its own inverse modulo 8.
pub fn inverse_modulo_2_64(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
pub mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::random::tests::Seeded;

    pub fn big(natural: &[u64]) -> BigUint {
        BigUint::from_bytes_le(&to_bytes(natural))
    }

    /// The number in exactly `words` words.
    pub fn natural(big: &BigUint, words: usize) -> Natural {
        let mut bytes = big.to_bytes_le();
        assert!(bytes.len() <= 8 * words);
        bytes.resize(8 * words, 0);
        from_bytes(&bytes)
    }

    /// Random numbers, and those whose words are all zeros or all ones.
    fn samples(random: &mut Seeded, words: usize) -> Vec<Natural> {
        let mut samples: Vec<_> = (0..50).map(|_| random.natural(words)).collect();
        samples.push(zero(words));
        samples.push(Zeroizing::new(vec![u64::MAX; words]));
        samples.push(plus(&zero(words), 1));
        samples
    }

    #[test]
    fn arithmetic_agrees_with_an_independent_library() {
        let mut random = Seeded::new(1);
        for words in [1, 2, 16, 24] {
            let (left, right) = (samples(&mut random, words), samples(&mut random, words));
            for (a, b) in left
                .iter()
                .flat_map(|a| right.iter().map(move |b| (a.as_slice(), b.as_slice())))
            {
                assert_eq!(big(&times(a, b)), big(a) * big(b));
                assert_eq!(less_than(a, b), big(a) < big(b));
                let modulus = BigUint::from(1_u32) << (64 * words);
                let (difference, borrow) = minus(a, b);
                assert_eq!(big(&difference), (&modulus + big(a) - big(b)) % &modulus);
                assert_eq!(borrow, u64::from(big(a) < big(b)));
                let odd = b[0] | 1;
                assert_eq!(
                    divided_exactly(&times(a, &[odd]), odd)[..words],
                    a[..words],
                    "{odd}"
                );
                let bits = (b[0] % 64) as u32;
                assert_eq!(big(&shifted_right(a, bits)), big(a) >> bits);
            }
        }
        let carries = Zeroizing::new(vec![u64::MAX, u64::MAX, 7]);
        assert_eq!(*plus(&carries, 1), [0, 0, 8]);
    }

    #[test]
    fn bytes_are_read_back() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let natural = from_bytes(&bytes);
        assert_eq!(*natural, [0x0807_0605_0403_0201, 9]);
        assert_eq!(to_bytes(&natural)[..9], bytes);
    }
}
