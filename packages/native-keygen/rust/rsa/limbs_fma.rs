//! Numbers side by side in the lanes of vector registers, as limbs: the i-th vector has the i-th limb of all of them. No branch
//! and no address depends on their values.

use super::vectors::Vectors;

pub type Limbs<V, const L: usize> = [<V as Vectors>::Integers; L];
pub type Reals<V, const L: usize> = [<V as Vectors>::Reals; L];

#[inline(always)]
pub fn limb<V: Vectors>(v: V, column: V::Integers) -> V::Integers {
    v.and(column, v.all((1 << V::LIMB_BITS) - 1))
}

/// What is carried to the next limb: column / 2^`LIMB_BITS`, rounded down, for a column between -2^62 and 2^62.
#[inline(always)]
fn carry<V: Vectors>(v: V, column: V::Integers) -> V::Integers {
    let above = v.above_limb(v.sum(column, v.all(1 << 62)));
    v.less(above, v.all(1 << (62 - V::LIMB_BITS)))
}

#[inline(always)]
pub fn reals<V: Vectors, const L: usize>(v: V, x: &Limbs<V, L>) -> Reals<V, L> {
    let mut reals = [v.real(v.all(0)); L];
    for (real, &limb) in reals.iter_mut().zip(x) {
        *real = v.real(limb);
    }
    reals
}

/// a - b, and a mask of the lanes in which b is the larger one.
#[inline(always)]
pub fn difference<V: Vectors, const L: usize>(
    v: V,
    a: &Limbs<V, L>,
    b: &Limbs<V, L>,
) -> (Limbs<V, L>, V::Integers) {
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
pub fn doubled<V: Vectors, const L: usize>(v: V, x: &Limbs<V, L>) -> Limbs<V, L> {
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
pub fn equal<V: Vectors, const L: usize>(v: V, a: &Limbs<V, L>, b: &Limbs<V, L>) -> V::Integers {
    let mut equal = v.all(-1);
    for (&a, &b) in a.iter().zip(b) {
        equal = v.and(equal, v.is_same(a, b));
    }
    equal
}

/// `a` in the lanes of the mask, `b` in the others.
#[inline(always)]
pub fn selected<V: Vectors, const L: usize>(
    v: V,
    mask: V::Integers,
    a: &Limbs<V, L>,
    b: &Limbs<V, L>,
) -> Limbs<V, L> {
    let mut limbs = *b;
    for (limb, &a) in limbs.iter_mut().zip(a) {
        *limb = v.sum(*limb, v.and(v.less(a, *limb), mask));
    }
    limbs
}

/// Each lane's own entry.
#[inline(always)]
pub fn looked_up<V: Vectors, const L: usize>(
    v: V,
    table: &[Limbs<V, L>],
    index: V::Integers,
) -> Limbs<V, L> {
    let mut found = table[0];
    for (number, entry) in table.iter().enumerate().skip(1) {
        let mask = v.is_same(index, v.all(number as i64));
        found = selected(v, mask, entry, &found);
    }
    found
}

/// `count` bits of each number from `bit` on, all of one word.
#[inline(always)]
pub fn digit<V: Vectors>(v: V, numbers: &[&[u64]], bit: usize, count: usize) -> V::Integers {
    let mask = (1 << count) - 1;
    v.lanes(|lane| (numbers[lane][bit / 64] >> (bit % 64) & mask) as i64)
}

/// A mask of the lanes whose number has the bit.
#[inline(always)]
pub fn bit_mask<V: Vectors>(v: V, numbers: &[&[u64]], bit: usize) -> V::Integers {
    v.less(v.all(0), digit(v, numbers, bit, 1))
}

/// From words of 64 bits to limbs, without the `skipped` lowest ones.
#[inline(always)]
pub fn packed<'a, V: Vectors, const L: usize>(
    v: V,
    number: impl Fn(usize) -> &'a [u64],
    skipped: usize,
) -> Limbs<V, L> {
    let mut limbs = [v.all(0); L];
    for (index, limb) in limbs.iter_mut().enumerate() {
        let bit = (index + skipped) * V::LIMB_BITS;
        *limb = v.lanes(|lane| bits_from(number(lane), bit, V::LIMB_BITS));
    }
    limbs
}

fn bits_from(words: &[u64], bit: usize, count: usize) -> i64 {
    let at = |word: usize| u128::from(words.get(word).copied().unwrap_or(0));
    let both = at(bit / 64) | at(bit / 64 + 1) << 64;
    (both >> (bit % 64)) as i64 & ((1 << count) - 1)
}
