//! Eight lanes in the registers of AVX-512F.

use core::arch::x86_64::{
    __m512d, __m512i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_ZERO, _mm512_add_epi64, _mm512_and_si512,
    _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cmpeq_epi64_mask, _mm512_fmadd_pd,
    _mm512_fmadd_round_pd, _mm512_maskz_set1_epi64, _mm512_or_si512, _mm512_set1_epi64,
    _mm512_set1_pd, _mm512_setr_epi64, _mm512_srli_epi64, _mm512_sub_epi64, _mm512_sub_pd,
    _mm512_test_epi64_mask,
};

use super::vectors::Vectors;

/// Proof that the CPU has AVX-512F: `detected` alone makes one.
#[derive(Clone, Copy)]
pub struct Avx512F(());

impl Avx512F {
    pub fn detected() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx512f") && !cfg!(feature = "without-avx512");
        is_available.then_some(Self(()))
    }
}

const LOW: f64 = (1_u64 << 52) as f64;
const HIGH: f64 = (1_u128 << 104) as f64;

/// Products are rounded down, which AVX2 cannot ask for, so that the low half is between 0 and 2^52: limbs have one bit more.
impl Vectors for Avx512F {
    const LANES: usize = 8;
    const LIMB_BITS: usize = 52;
    const LOW_BIAS: i64 = LOW.to_bits() as i64;
    const HIGH_BIAS: i64 = HIGH.to_bits() as i64;

    type Integers = __m512i;
    type Reals = __m512d;

    #[inline(always)]
    fn compiled<T>(self, work: impl FnOnce() -> T) -> T {
        #[inline(never)]
        #[target_feature(enable = "avx512f")]
        fn compiled<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { compiled(work) }
    }

    #[inline(always)]
    fn all(self, value: i64) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_set1_epi64(value) }
    }

    #[inline(always)]
    fn lanes(self, value: impl Fn(usize) -> i64) -> __m512i {
        let (a, b, c, d) = (value(0), value(1), value(2), value(3));
        let (e, f, g, h) = (value(4), value(5), value(6), value(7));
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_setr_epi64(a, b, c, d, e, f, g, h) }
    }

    #[inline(always)]
    fn sum(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn less(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_sub_epi64(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn above_limb(self, x: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_srli_epi64::<{ Self::LIMB_BITS as u32 }>(x) }
    }

    #[inline(always)]
    fn real(self, x: __m512i) -> __m512d {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe {
            let offset = _mm512_set1_pd((1_u64 << 52) as f64);
            let number = _mm512_or_si512(x, _mm512_castpd_si512(offset));
            _mm512_sub_pd(_mm512_castsi512_pd(number), offset)
        }
    }

    #[inline(always)]
    fn halves(self, a: __m512d, b: __m512d) -> (__m512i, __m512i) {
        const DOWN: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe {
            let rounded = _mm512_fmadd_round_pd::<DOWN>(a, b, _mm512_set1_pd(HIGH));
            let missing = _mm512_sub_pd(_mm512_set1_pd(HIGH + LOW), rounded);
            let low = _mm512_fmadd_pd(a, b, missing);
            (_mm512_castpd_si512(low), _mm512_castpd_si512(rounded))
        }
    }

    #[inline(always)]
    fn is_same(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_maskz_set1_epi64(_mm512_cmpeq_epi64_mask(a, b), -1) }
    }

    #[inline(always)]
    fn bits(self, mask: __m512i) -> u8 {
        // SAFETY: `self` proves that the CPU has AVX-512F.
        unsafe { _mm512_test_epi64_mask(mask, mask) }
    }
}
