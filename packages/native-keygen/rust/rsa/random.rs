//! The source of random numbers: the operating system through aws-lc, or a test's stream.

use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::natural::{self, Natural};
use super::secrecy::hide;
use crate::key_error::KeyError;

pub trait Random {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), KeyError>;

    /// Uniform among the naturals of `words` words.
    fn natural(&mut self, words: usize) -> Result<Natural, KeyError> {
        let mut bytes = Zeroizing::new(vec![0; 8 * words]);
        self.fill(&mut bytes)?;
        Ok(natural::from_bytes(&bytes))
    }
}

/// aws-lc's generator (RAND_bytes), which the operating system seeds.
pub struct System;

impl Random for System {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), KeyError> {
        rand::fill(bytes).map_err(|_| KeyError::Library("give random numbers"))?;
        hide(bytes);
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// SplitMix64 (G. Steele and others, Fast splittable pseudorandom number generators, 2014): the same stream for the
    /// same seed, and nothing secret about it.
    #[derive(Clone)]
    pub struct Seeded(u64);

    impl Seeded {
        pub fn new(seed: u64) -> Self {
            Self(seed)
        }

        pub fn natural(&mut self, words: usize) -> Natural {
            Zeroizing::new((0..words).map(|_| self.next()).collect())
        }

        pub fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.0;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        }
    }

    impl Random for Seeded {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), KeyError> {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
            }
            Ok(())
        }
    }

    #[test]
    fn the_system_gives_different_numbers_each_time() {
        let draw = || System.natural(4).expect("random numbers");
        let (first, second) = (draw(), draw());
        assert_ne!(first, second);
        assert!(first.iter().chain(second.iter()).all(|&word| word != 0));
    }
}
