//! Several candidates tested at once in the vector registers of a CPU with fused multiplication (FMA).

use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512f::Avx512F;
use super::engine::{Engine, StrongTest, all_lanes, used_lanes};
use super::lanes_fma::{fermat, strong};
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::sieve::{Bitmap, Sieve};
use super::vectors::Vectors;
use crate::key_error::KeyError;

struct Fma<V>(V);

/// Those that this CPU can run, the fastest first.
#[cfg(target_arch = "x86_64")]
pub fn engines() -> impl Iterator<Item = &'static dyn Engine> {
    static AVX512F: LazyLock<Option<Fma<Avx512F>>> = LazyLock::new(|| Avx512F::detected().map(Fma));
    static AVX2: LazyLock<Option<Fma<Avx2>>> = LazyLock::new(|| Avx2::detected().map(Fma));
    let avx512f = AVX512F.as_ref().map(|engine| engine as &dyn Engine);
    let avx2 = AVX2.as_ref().map(|engine| engine as &dyn Engine);
    avx512f.into_iter().chain(avx2)
}

#[cfg(target_arch = "aarch64")]
pub fn engines() -> Option<&'static dyn Engine> {
    static NEON: LazyLock<Option<Fma<Neon>>> = LazyLock::new(|| Neon::detected().map(Fma));
    NEON.as_ref().map(|engine| engine as &dyn Engine)
}

impl<V: Vectors> Engine for Fma<V> {
    fn width(&self) -> usize {
        V::LANES
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
                || match (candidates[0].len(), V::LIMB_BITS) {
                    (16, 52) => fermat::<V, 21>(v, candidates),
                    (24, 52) => fermat::<V, 31>(v, candidates),
                    (_, 52) => fermat::<V, 41>(v, candidates),
                    (16, _) => fermat::<V, 22>(v, candidates),
                    (24, _) => fermat::<V, 32>(v, candidates),
                    (_, _) => fermat::<V, 42>(v, candidates),
                },
            )
        };
        Ok(in_turns::<V, _>(candidates, of_lanes))
    }

    fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
        let v = self.0;
        let of_lanes = |tests: &[StrongTest]| {
            let candidates = &all_lanes(tests).map(|test| test.candidate)[..V::LANES];
            let bases = &all_lanes(tests).map(|test| test.base)[..V::LANES];
            v.compiled(
                #[inline(always)]
                || match (candidates[0].len(), V::LIMB_BITS) {
                    (16, 52) => strong::<V, 21>(v, candidates, bases),
                    (24, 52) => strong::<V, 31>(v, candidates, bases),
                    (_, 52) => strong::<V, 41>(v, candidates, bases),
                    (16, _) => strong::<V, 22>(v, candidates, bases),
                    (24, _) => strong::<V, 32>(v, candidates, bases),
                    (_, _) => strong::<V, 42>(v, candidates, bases),
                },
            )
        };
        Ok(in_turns::<V, _>(tests, of_lanes))
    }
}

/// The answers for all tests, from calls that fill the lanes.
fn in_turns<V: Vectors, T: Copy>(tests: &[T], of_lanes: impl Fn(&[T]) -> u8) -> u8 {
    let mut passed = 0;
    for (turn, tests) in tests.chunks(V::LANES).enumerate() {
        let in_lanes = of_lanes(&all_lanes(tests)[..V::LANES]);
        passed |= (in_lanes & used_lanes(tests.len())) << (turn * V::LANES);
    }
    passed
}
