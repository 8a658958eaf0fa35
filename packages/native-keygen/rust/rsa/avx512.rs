//! The AVX-512 instructions that `lanes_ifma` uses. With the feature `emulated-simd` ordinary code computes them, so that
//! every CPU can test the code above them, and valgrind, which has no AVX-512, can follow the secrets through it.

#[cfg(not(feature = "emulated-simd"))]
pub use core::arch::x86_64::{
    __m512i, __mmask8, _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_add_epi64,
    _mm512_mask_mov_epi64, _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512,
    _mm512_srl_epi64, _mm512_srli_epi64, _mm512_sub_epi64, _mm512_test_epi64_mask,
    _mm512_testn_epi64_mask,
};
#[cfg(feature = "emulated-simd")]
pub use emulated::{
    __m512i, __mmask8, _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_add_epi64,
    _mm512_mask_mov_epi64, _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512,
    _mm512_srl_epi64, _mm512_srli_epi64, _mm512_sub_epi64, _mm512_test_epi64_mask,
    _mm512_testn_epi64_mask,
};

/// Whether the CPU has AVX-512F and AVX-512 IFMA.
pub fn is_available() -> bool {
    #[cfg(not(feature = "emulated-simd"))]
    let is_available =
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
    #[cfg(feature = "emulated-simd")]
    let is_available = true;
    is_available
}

/// The intrinsics by Intel's Intrinsics Guide, without branches.
#[cfg(feature = "emulated-simd")]
#[allow(non_camel_case_types)]
mod emulated {
    use std::array::from_fn;
    use std::hint::black_box;

    use zeroize::DefaultIsZeroes;

    #[derive(Clone, Copy, Default)]
    #[repr(transparent)]
    pub struct __m512i([u64; 8]);
    pub type __mmask8 = u8;

    impl DefaultIsZeroes for __m512i {}

    fn mask_of(is_set: impl Fn(usize) -> bool) -> __mmask8 {
        (0..8).fold(0, |mask, lane| mask | u8::from(is_set(lane)) << lane)
    }

    /// The product of the low 52 bits.
    fn product(a: u64, b: u64) -> u128 {
        let low = |x: u64| u128::from(x & ((1 << 52) - 1));
        low(a) * low(b)
    }

    pub fn _mm512_setzero_si512() -> __m512i {
        __m512i::default()
    }

    pub fn _mm512_set1_epi64(a: i64) -> __m512i {
        __m512i([a as u64; 8])
    }

    #[expect(clippy::too_many_arguments, clippy::many_single_char_names)]
    pub fn _mm512_setr_epi64(
        a: i64,
        b: i64,
        c: i64,
        d: i64,
        e: i64,
        f: i64,
        g: i64,
        h: i64,
    ) -> __m512i {
        __m512i([a, b, c, d, e, f, g, h].map(|lane| lane as u64))
    }

    pub fn _mm512_add_epi64(a: __m512i, b: __m512i) -> __m512i {
        __m512i(from_fn(|lane| a.0[lane].wrapping_add(b.0[lane])))
    }

    pub fn _mm512_sub_epi64(a: __m512i, b: __m512i) -> __m512i {
        __m512i(from_fn(|lane| a.0[lane].wrapping_sub(b.0[lane])))
    }

    pub fn _mm512_and_si512(a: __m512i, b: __m512i) -> __m512i {
        __m512i(from_fn(|lane| a.0[lane] & b.0[lane]))
    }

    pub fn _mm512_srli_epi64<const BITS: u32>(a: __m512i) -> __m512i {
        __m512i(a.0.map(|lane| lane >> BITS))
    }

    /// A count of 64 bits, which the caller keeps below 64.
    pub fn _mm_cvtsi64_si128(count: i64) -> i64 {
        count
    }

    pub fn _mm512_srl_epi64(a: __m512i, count: i64) -> __m512i {
        __m512i(a.0.map(|lane| lane >> count))
    }

    pub fn _mm512_madd52lo_epu64(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        let low = |lane| product(a.0[lane], b.0[lane]) as u64 & ((1 << 52) - 1);
        __m512i(from_fn(|lane| sum.0[lane].wrapping_add(low(lane))))
    }

    pub fn _mm512_madd52hi_epu64(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        let high = |lane| (product(a.0[lane], b.0[lane]) >> 52) as u64;
        __m512i(from_fn(|lane| sum.0[lane].wrapping_add(high(lane))))
    }

    pub fn _mm512_mask_mov_epi64(rest: __m512i, mask: __mmask8, a: __m512i) -> __m512i {
        // Behind the black box the compiler cannot make a branch of it.
        let chosen = |lane| u64::from(black_box(mask >> lane & 1)).wrapping_neg();
        __m512i(from_fn(|lane| {
            (a.0[lane] & chosen(lane)) | (rest.0[lane] & !chosen(lane))
        }))
    }

    pub fn _mm512_mask_add_epi64(rest: __m512i, mask: __mmask8, a: __m512i, b: __m512i) -> __m512i {
        _mm512_mask_mov_epi64(rest, mask, _mm512_add_epi64(a, b))
    }

    pub fn _mm512_cmpeq_epi64_mask(a: __m512i, b: __m512i) -> __mmask8 {
        mask_of(|lane| a.0[lane] == b.0[lane])
    }

    pub fn _mm512_test_epi64_mask(a: __m512i, b: __m512i) -> __mmask8 {
        mask_of(|lane| a.0[lane] & b.0[lane] != 0)
    }

    pub fn _mm512_testn_epi64_mask(a: __m512i, b: __m512i) -> __mmask8 {
        mask_of(|lane| a.0[lane] & b.0[lane] == 0)
    }
}
