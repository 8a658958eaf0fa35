//! Numbers side by side in the lanes of vector registers, as limbs: the i-th vector has the i-th limb of all of them. No branch
//! and no address depends on their values.

use super::avx2::{Avx2, Floats, Integers};

pub type Limbs<const L: usize> = [Integers; L];
pub type Reals<const L: usize> = [Floats; L];

#[inline(always)]
pub fn limb(v: Avx2, column: Integers) -> Integers {
    v.and(column, v.all((1 << Avx2::LIMB_BITS) - 1))
}

/// The carry to the next limb: column / 2^`LIMB_BITS`, rounded down, for a column between -2^62 and 2^62.
#[inline(always)]
fn carry(v: Avx2, column: Integers) -> Integers {
    let above = v.above_limb(v.sum(column, v.all(1 << 62)));
    v.less(above, v.all(1 << (62 - Avx2::LIMB_BITS)))
}

#[inline(always)]
pub fn reals<const L: usize>(v: Avx2, x: &Limbs<L>) -> Reals<L> {
    let mut reals = [v.real(v.all(0)); L];
    for (real, &limb) in reals.iter_mut().zip(x) {
        *real = v.real(limb);
    }
    reals
}

/// a - b, and a mask of the lanes in which b is the larger one.
#[inline(always)]
pub fn difference<const L: usize>(v: Avx2, a: &Limbs<L>, b: &Limbs<L>) -> (Limbs<L>, Integers) {
    let mut limbs = *a;
    let mut borrow = v.all(0);
    for (difference, &b) in limbs.iter_mut().zip(b) {
        let signed = v.sum(v.less(*difference, b), borrow);
        borrow = carry(v, signed);
        *difference = limb(v, signed);
    }
    (limbs, borrow)
}

#[inline(always)]
pub fn doubled<const L: usize>(v: Avx2, x: &Limbs<L>) -> Limbs<L> {
    let mut limbs = *x;
    let mut carried = v.all(0);
    for double in &mut limbs {
        let column = v.sum(v.sum(*double, *double), carried);
        carried = carry(v, column);
        *double = limb(v, column);
    }
    limbs
}

#[inline(always)]
pub fn equal<const L: usize>(v: Avx2, a: &Limbs<L>, b: &Limbs<L>) -> Integers {
    let mut equal = v.all(-1);
    for (&a, &b) in a.iter().zip(b) {
        equal = v.and(equal, v.is_same(a, b));
    }
    equal
}

/// `a` in the lanes of the mask, `b` in the others.
#[inline(always)]
pub fn selected<const L: usize>(v: Avx2, mask: Integers, a: &Limbs<L>, b: &Limbs<L>) -> Limbs<L> {
    let mut limbs = *b;
    for (limb, &a) in limbs.iter_mut().zip(a) {
        *limb = v.sum(*limb, v.and(v.less(a, *limb), mask));
    }
    limbs
}

/// Each lane's own entry.
#[inline(always)]
pub fn looked_up<const L: usize>(v: Avx2, table: &[Limbs<L>], index: Integers) -> Limbs<L> {
    let mut found = table[0];
    for (number, entry) in table.iter().enumerate().skip(1) {
        let mask = v.is_same(index, v.all(number as i64));
        found = selected(v, mask, entry, &found);
    }
    found
}

/// `count` bits of each number from `bit` on, all of one word.
#[inline(always)]
pub fn digit(v: Avx2, numbers: &[&[u64]], bit: usize, count: usize) -> Integers {
    let mask = (1 << count) - 1;
    v.lanes(|lane| (numbers[lane][bit / 64] >> (bit % 64) & mask) as i64)
}

/// A mask of the lanes whose number has the bit.
#[inline(always)]
pub fn bit_mask(v: Avx2, numbers: &[&[u64]], bit: usize) -> Integers {
    v.less(v.all(0), digit(v, numbers, bit, 1))
}

/// Converts words of 64 bits to limbs, without the `skipped` lowest ones.
#[inline(always)]
pub fn packed<'a, const L: usize>(
    v: Avx2,
    number: impl Fn(usize) -> &'a [u64],
    skipped: usize,
) -> Limbs<L> {
    let mut limbs = [v.all(0); L];
    for (index, limb) in limbs.iter_mut().enumerate() {
        let bit = (index + skipped) * Avx2::LIMB_BITS;
        *limb = v.lanes(|lane| bits_from(number(lane), bit, Avx2::LIMB_BITS));
    }
    limbs
}

fn bits_from(words: &[u64], bit: usize, count: usize) -> i64 {
    let at = |word: usize| u128::from(words.get(word).copied().unwrap_or(0));
    let both = at(bit / 64) | at(bit / 64 + 1) << 64;
    (both >> (bit % 64)) as i64 & ((1 << count) - 1)
}
