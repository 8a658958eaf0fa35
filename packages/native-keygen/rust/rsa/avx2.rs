//! Four lanes in the registers of AVX2: what `lanes_fma` is made of. Each 64-bit lane has an integer or a floating-point number
//! (IEEE 754, binary64). No operation branches on a value, and none has an address that depends on one.

use core::arch::x86_64::{
    __m256d, __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_castpd_si256, _mm256_castsi256_pd,
    _mm256_cmpeq_epi64, _mm256_fmadd_pd, _mm256_movemask_pd, _mm256_or_si256, _mm256_set1_epi64x,
    _mm256_set1_pd, _mm256_setr_epi64x, _mm256_srli_epi64, _mm256_sub_epi64, _mm256_sub_pd,
};

pub type Integers = __m256i;
/// Integers below 2^52 as floating-point numbers, which have them exactly.
pub type Floats = __m256d;

/// Proof that the CPU has AVX2 and FMA: `detected` alone makes one.
#[derive(Clone, Copy)]
pub struct Avx2(());

const LOW: f64 = (3_u64 << 51) as f64;
const HIGH: f64 = (1_u128 << 103) as f64;

impl Avx2 {
    pub const LANES: usize = 4;
    /// Two factors of `halves` have as many bits.
    pub const LIMB_BITS: usize = 51;
    /// The bias of the low halves that `halves` returns.
    pub const LOW_BIAS: i64 = LOW.to_bits() as i64;
    pub const HIGH_BIAS: i64 = HIGH.to_bits() as i64;

    pub fn detected() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    /// Calls `work`, compiled for the CPU with all that is inlined in it.
    #[inline(always)]
    pub fn compiled<T>(self, work: impl FnOnce() -> T) -> T {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn compiled<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        // SAFETY: `self` proves that the CPU has AVX2 and FMA.
        unsafe { compiled(work) }
    }

    #[inline(always)]
    pub fn all(self, value: i64) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_set1_epi64x(value) }
    }

    #[inline(always)]
    pub fn lanes(self, value: impl Fn(usize) -> i64) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_setr_epi64x(value(0), value(1), value(2), value(3)) }
    }

    #[inline(always)]
    pub fn sum(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    pub fn less(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_sub_epi64(a, b) }
    }

    #[inline(always)]
    pub fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    /// Integers from 0 to 2^64, shifted right by `LIMB_BITS`.
    #[inline(always)]
    pub fn above_limb(self, x: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_srli_epi64::<{ Self::LIMB_BITS as i32 }>(x) }
    }

    /// Integers between 0 and 2^52.
    #[inline(always)]
    pub fn real(self, x: __m256i) -> __m256d {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe {
            let offset = _mm256_set1_pd((1_u64 << 52) as f64);
            let number = _mm256_or_si256(x, _mm256_castpd_si256(offset));
            _mm256_sub_pd(_mm256_castsi256_pd(number), offset)
        }
    }

    /// (low + `LOW_BIAS`, high + `HIGH_BIAS`), where a b = low + 2^`LIMB_BITS` high, for limbs a and b. The first fused
    /// multiplication rounds a b to the nearest multiple of 2^51, the second computes what is missing, between -2^50 and 2^50: each
    /// has one rounding, and the second has none to do (T. Dekker, A floating-point technique for extending the available precision,
    /// 1971). The halves are read out of the bits of sums with large numbers: bits of a number between 2^52 and 2^53 count ones, of
    /// one between 2^(52 + n) and 2^(53 + n) they count 2^n. No number here is subnormal, so that time does not depend on them.
    #[inline(always)]
    pub fn halves(self, a: __m256d, b: __m256d) -> (__m256i, __m256i) {
        // SAFETY: `self` proves that the CPU has AVX2 and FMA.
        unsafe {
            let rounded = _mm256_fmadd_pd(a, b, _mm256_set1_pd(HIGH));
            let missing = _mm256_sub_pd(_mm256_set1_pd(HIGH + LOW), rounded);
            let low = _mm256_fmadd_pd(a, b, missing);
            (_mm256_castpd_si256(low), _mm256_castpd_si256(rounded))
        }
    }

    /// All bits where the lanes are equal, none where they are not.
    #[inline(always)]
    pub fn is_same(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_cmpeq_epi64(a, b) }
    }

    /// One bit for each lane of a mask.
    #[inline(always)]
    pub fn bits(self, mask: __m256i) -> u8 {
        // SAFETY: `self` proves that the CPU has AVX2.
        unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(mask)) as u8 }
    }
}
