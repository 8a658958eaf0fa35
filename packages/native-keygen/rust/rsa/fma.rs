//! Four candidates tested at once in the vector registers of a CPU with AVX2 and fused multiplication (FMA).

use std::sync::LazyLock;

use super::avx2::Avx2;
use super::engine::{Engine, StrongTest, all_lanes, used_lanes};
use super::lanes_fma::{fermat, strong};
use super::sieve::{Bitmap, Sieve};
use crate::key_error::KeyError;

pub struct Fma(Avx2);

impl Fma {
    pub fn detected() -> Option<&'static Self> {
        static FMA: LazyLock<Option<Fma>> = LazyLock::new(|| Avx2::detected().map(Fma));
        FMA.as_ref()
    }
}

impl Engine for Fma {
    fn width(&self) -> usize {
        Avx2::LANES
    }

    fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap {
        // valgrind 3.19 does not know an instruction that the compiler uses here (`vmovq` from register to register).
        if cfg!(feature = "memcheck") {
            return sieve.survivors(start);
        }
        self.0.compiled(
            #[inline(always)]
            || sieve.survivors(start),
        )
    }

    fn fermat(&self, candidates: &[&[u64]]) -> Result<u8, KeyError> {
        let v = self.0;
        let of_lanes = |candidates: &[&[u64]]| {
            v.compiled(
                #[inline(always)]
                || match candidates[0].len() {
                    16 => fermat::<22>(v, candidates),
                    24 => fermat::<32>(v, candidates),
                    _ => fermat::<42>(v, candidates),
                },
            )
        };
        Ok(in_turns(candidates, of_lanes))
    }

    fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
        let v = self.0;
        let of_lanes = |tests: &[StrongTest]| {
            let candidates = &all_lanes(tests).map(|test| test.candidate)[..Avx2::LANES];
            let bases = &all_lanes(tests).map(|test| test.base)[..Avx2::LANES];
            v.compiled(
                #[inline(always)]
                || match candidates[0].len() {
                    16 => strong::<22>(v, candidates, bases),
                    24 => strong::<32>(v, candidates, bases),
                    _ => strong::<42>(v, candidates, bases),
                },
            )
        };
        Ok(in_turns(tests, of_lanes))
    }
}

/// The answers for all tests, from calls that fill the lanes.
fn in_turns<T: Copy>(tests: &[T], of_lanes: impl Fn(&[T]) -> u8) -> u8 {
    let mut passed = 0;
    for (turn, tests) in tests.chunks(Avx2::LANES).enumerate() {
        let in_lanes = of_lanes(&all_lanes(tests)[..Avx2::LANES]);
        passed |= (in_lanes & used_lanes(tests.len())) << (turn * Avx2::LANES);
    }
    passed
}
