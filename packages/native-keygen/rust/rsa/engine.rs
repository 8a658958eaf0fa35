//! The interface of `ifma`, `fma` and `portable`, which test candidates for primes. All engines give the same answers, in a time
//! that does not depend on the candidates.

use super::sieve::{Bitmap, Sieve};
use crate::key_error::KeyError;

/// The strong test takes this many low bits of its exponent w - 1 one by one, and so finds up to 31 factors 2 in it. It
/// calls a prime with more (one in 2^31) composite.
pub const LOW_BITS: usize = 32;
pub const MAX_WIDTH: usize = 8;

/// Answers come as bits: bit i for the i-th test, of at most MAX_WIDTH. All numbers of one call have the same number of
/// words, 16, 24 or 32, and every candidate has its highest and its lowest bit set.
pub trait Engine: Sync {
    /// Tests that one call makes in the time of one.
    fn width(&self) -> usize;

    /// `Sieve::survivors`.
    fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap;

    /// Which w pass Fermat's test for base 2: 2^(w - 1) = 1 modulo w.
    fn fermat(&self, candidates: &[&[u64]]) -> Result<u8, KeyError>;

    /// Which w pass the strong test of Miller and Rabin for their base b, 1 < b < w - 1.
    fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError>;
}

#[derive(Clone, Copy)]
pub struct StrongTest<'a> {
    pub candidate: &'a [u64],
    pub base: &'a [u64],
}

/// The first test fills the lanes that are left.
pub fn all_lanes<T: Copy>(tests: &[T]) -> [T; MAX_WIDTH] {
    std::array::from_fn(|lane| tests[if lane < tests.len() { lane } else { 0 }])
}

pub fn used_lanes(count: usize) -> u8 {
    assert!(count <= MAX_WIDTH);
    ((1_u16 << count) - 1) as u8
}
