//! Four lanes in the registers of AVX2.

use core::arch::x86_64::{
    __m256d, __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_castpd_si256, _mm256_castsi256_pd,
    _mm256_cmpeq_epi64, _mm256_fmadd_pd, _mm256_movemask_pd, _mm256_or_si256, _mm256_set1_epi64x,
    _mm256_set1_pd, _mm256_setr_epi64x, _mm256_srli_epi64, _mm256_sub_epi64, _mm256_sub_pd,
};

use super::vectors::Vectors;

/// Proof that the CPU has AVX2 and FMA: `detected` alone makes one.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    pub fn detected() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }
}

const LOW: f64 = (3_u64 << 51) as f64;
const HIGH: f64 = (1_u128 << 103) as f64;

/// Products are rounded to the nearest multiple of 2^51, so that the low half is between -2^50 and 2^50.
impl Vectors for Avx2 {
    const LANES: usize = 4;
    const LIMB_BITS: usize = 51;
    const LOW_BIAS: i64 = LOW.to_bits() as i64;
    const HIGH_BIAS: i64 = HIGH.to_bits() as i64;

    type Integers = __m256i;
    type Reals = __m256d;

    #[inline(always)]
    fn compiled<T>(self, work: impl FnOnce() -> T) -> T {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn compiled<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        // SAFETY: `self` proves that the CPU has AVX2 and FMA.
        unsafe { compiled(work) }
    }

    #[inline(always)]
    fn all(self, value: i64) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_set1_epi64x(value) }
    }

    #[inline(always)]
    fn lanes(self, value: impl Fn(usize) -> i64) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_setr_epi64x(value(0), value(1), value(2), value(3)) }
    }

    #[inline(always)]
    fn sum(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn less(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_sub_epi64(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn above_limb(self, x: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_srli_epi64::<{ Self::LIMB_BITS as i32 }>(x) }
    }

    #[inline(always)]
    fn real(self, x: __m256i) -> __m256d {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe {
            let offset = _mm256_set1_pd((1_u64 << 52) as f64);
            let number = _mm256_or_si256(x, _mm256_castpd_si256(offset));
            _mm256_sub_pd(_mm256_castsi256_pd(number), offset)
        }
    }

    #[inline(always)]
    fn halves(self, a: __m256d, b: __m256d) -> (__m256i, __m256i) {
        // SAFETY: `self` proves that the CPU has AVX2 and FMA.
        unsafe {
            let rounded = _mm256_fmadd_pd(a, b, _mm256_set1_pd(HIGH));
            let missing = _mm256_sub_pd(_mm256_set1_pd(HIGH + LOW), rounded);
            let low = _mm256_fmadd_pd(a, b, missing);
            (_mm256_castpd_si256(low), _mm256_castpd_si256(rounded))
        }
    }

    #[inline(always)]
    fn is_same(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_cmpeq_epi64(a, b) }
    }

    #[inline(always)]
    fn bits(self, mask: __m256i) -> u8 {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(mask)) as u8 }
    }
}
