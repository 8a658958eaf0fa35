//! Eight numbers in the 64-bit lanes of AVX-512 registers, as limbs of 52 bits: the i-th vector has the i-th limb of all
//! eight. No branch and no address depends on their values.

use super::avx512::{
    __m512i, __mmask8, _mm_cvtsi64_si128, _mm512_add_epi64, _mm512_and_si512,
    _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_mov_epi64,
    _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512, _mm512_srl_epi64,
    _mm512_srli_epi64, _mm512_sub_epi64, _mm512_test_epi64_mask,
};
use super::engine::MAX_WIDTH as LANES;

pub const LIMB_BITS: usize = 52;
const LIMB_MASK: i64 = (1 << LIMB_BITS) - 1;
/// Exponent bits that one product covers: sixteen powers in a table.
pub const DIGIT_BITS: usize = 4;

pub type Lanes = __m512i;
pub type Limbs<const L: usize> = [Lanes; L];

/// sum + the low 52 bits of a b.
#[inline]
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
pub fn low(sum: Lanes, a: Lanes, b: Lanes) -> Lanes {
    _mm512_madd52lo_epu64(sum, a, b)
}

/// sum + the high 52 bits of a b.
#[inline]
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
pub fn high(sum: Lanes, a: Lanes, b: Lanes) -> Lanes {
    _mm512_madd52hi_epu64(sum, a, b)
}

#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn carry(column: Lanes) -> Lanes {
    _mm512_srli_epi64::<{ LIMB_BITS as u32 }>(column)
}

/// The limb, and the carry to the next.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn split(column: Lanes) -> (Lanes, Lanes) {
    let limb = _mm512_and_si512(column, _mm512_set1_epi64(LIMB_MASK));
    (limb, carry(column))
}

/// a - b, and the lanes in which b is the larger one.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn difference<const L: usize>(a: &Limbs<L>, b: &Limbs<L>) -> (Limbs<L>, __mmask8) {
    let mut limbs = *a;
    let mut borrow = _mm512_setzero_si512();
    for (limb, &b) in limbs.iter_mut().zip(b) {
        let signed = _mm512_sub_epi64(_mm512_sub_epi64(*limb, b), borrow);
        borrow = _mm512_srli_epi64::<63>(signed);
        *limb = _mm512_and_si512(signed, _mm512_set1_epi64(LIMB_MASK));
    }
    (limbs, _mm512_test_epi64_mask(borrow, borrow))
}

#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn doubled<const L: usize>(x: &Limbs<L>) -> Limbs<L> {
    let mut limbs = *x;
    let mut carried = _mm512_setzero_si512();
    for limb in &mut limbs {
        (*limb, carried) = split(_mm512_add_epi64(_mm512_add_epi64(*limb, *limb), carried));
    }
    limbs
}

#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn equal<const L: usize>(a: &Limbs<L>, b: &Limbs<L>) -> __mmask8 {
    let limbs = a.iter().zip(b);
    limbs.fold(0xff, |equal, (&a, &b)| {
        equal & _mm512_cmpeq_epi64_mask(a, b)
    })
}

/// `a` in the lanes of the mask, `b` in the others.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn selected<const L: usize>(mask: __mmask8, a: &Limbs<L>, b: &Limbs<L>) -> Limbs<L> {
    let mut limbs = *b;
    for (limb, &a) in limbs.iter_mut().zip(a) {
        *limb = _mm512_mask_mov_epi64(*limb, mask, a);
    }
    limbs
}

/// Each lane's own entry.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn looked_up<const L: usize>(table: &[Limbs<L>], index: Lanes) -> Limbs<L> {
    let mut found = table[0];
    for (number, entry) in table.iter().enumerate().skip(1) {
        let here = _mm512_cmpeq_epi64_mask(index, _mm512_set1_epi64(number as i64));
        found = selected(here, entry, &found);
    }
    found
}

/// The lanes whose number has the bit.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn bit_mask<const L: usize>(x: &Limbs<L>, bit: usize) -> __mmask8 {
    let here = _mm512_set1_epi64(1 << (bit % LIMB_BITS));
    _mm512_test_epi64_mask(x[bit / LIMB_BITS], here)
}

/// The digit of each number at a multiple of DIGIT_BITS, which divides LIMB_BITS.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn digit<const L: usize>(x: &Limbs<L>, bit: usize) -> Lanes {
    let count = _mm_cvtsi64_si128((bit % LIMB_BITS) as i64);
    let shifted = _mm512_srl_epi64(x[bit / LIMB_BITS], count);
    _mm512_and_si512(shifted, _mm512_set1_epi64((1 << DIGIT_BITS) - 1))
}

/// -1 / odd modulo 2^52: Newton's iteration, as odd numbers are their own inverses modulo 8.
#[inline]
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
pub fn minus_inverse(odd: Lanes) -> Lanes {
    let zero = _mm512_setzero_si512();
    let mut inverse = odd;
    for _ in 0..5 {
        let error = _mm512_sub_epi64(_mm512_set1_epi64(2), low(zero, odd, inverse));
        inverse = low(zero, inverse, error);
    }
    let negative = _mm512_sub_epi64(zero, inverse);
    _mm512_and_si512(negative, _mm512_set1_epi64(LIMB_MASK))
}

/// Converts words of 64 bits to limbs of 52.
#[inline]
#[cfg_attr(not(feature = "emulated-simd"), target_feature(enable = "avx512f"))]
pub fn packed<const L: usize>(numbers: [&[u64]; LANES]) -> Limbs<L> {
    let mut limbs = [_mm512_setzero_si512(); L];
    for (index, limb) in limbs.iter_mut().enumerate() {
        let [a, b, c, d, e, f, g, h] = numbers.map(|words| limb_of(words, index));
        *limb = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
    }
    limbs
}

fn limb_of(words: &[u64], index: usize) -> i64 {
    let (word, shift) = (index * LIMB_BITS / 64, index * LIMB_BITS % 64);
    let at = |word: usize| u128::from(words.get(word).copied().unwrap_or(0));
    let both = at(word) | at(word + 1) << 64;
    (both >> shift) as i64 & LIMB_MASK
}
