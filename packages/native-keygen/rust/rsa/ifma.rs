//! Eight candidates tested at once in the vector registers of a CPU with AVX-512 IFMA.
#![cfg_attr(feature = "emulated-simd", allow(unused_unsafe))]

use super::avx512::is_available;
use super::engine::{Engine, MAX_WIDTH, StrongTest, all_lanes, used_lanes};
use super::lanes_ifma::{fermat, strong};
use super::sieve::{Bitmap, Sieve};
use crate::key_error::KeyError;

/// Proof that the CPU has what `lanes_ifma` is compiled for: `detected` alone makes one.
pub struct Ifma(());

impl Ifma {
    pub fn detected() -> Option<&'static Self> {
        static IFMA: Ifma = Ifma(());
        (is_available() && !cfg!(feature = "without-ifma")).then_some(&IFMA)
    }
}

#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
fn survivors(sieve: &Sieve, start: &[u64]) -> Bitmap {
    sieve.survivors(start)
}

impl Engine for Ifma {
    fn width(&self) -> usize {
        MAX_WIDTH
    }

    fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { survivors(sieve, start) }
    }

    fn fermat(&self, candidates: &[&[u64]]) -> Result<u8, KeyError> {
        let lanes = all_lanes(candidates);
        // SAFETY: `self` proves that the CPU has AVX-512F and AVX-512 IFMA.
        let passed = unsafe {
            match lanes[0].len() {
                16 => fermat::<20>(lanes),
                24 => fermat::<30>(lanes),
                _ => fermat::<40>(lanes),
            }
        };
        Ok(passed & used_lanes(candidates.len()))
    }

    fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
        let lanes = all_lanes(tests);
        let (candidates, bases) = (
            lanes.map(|test| test.candidate),
            lanes.map(|test| test.base),
        );
        // SAFETY: `self` proves that the CPU has AVX-512F and AVX-512 IFMA.
        let passed = unsafe {
            match candidates[0].len() {
                16 => strong::<20>(candidates, bases),
                24 => strong::<30>(candidates, bases),
                _ => strong::<40>(candidates, bases),
            }
        };
        Ok(passed & used_lanes(tests.len()))
    }
}
