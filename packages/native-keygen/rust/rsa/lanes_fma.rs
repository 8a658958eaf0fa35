//! Exponentiation modulo four secret numbers at once, one in each 64-bit lane of AVX2's registers, by floating-point
//! multiplications that keep both halves of a product of limbs (FMA, "Fused Multiply-Add"). Integer products have 32-bit
//! factors on CPUs without AVX-512 IFMA, so that three times as many would be needed.
//!
//! Products are Montgomery's (Modular multiplication without trial division, 1985) with R = B^L for limbs below B. They are
//! modulo a multiple n = k w that is -1 modulo B, so that the lowest column is its quotient digit (H. Orup, Simplifying
//! quotient determination in high-radix modular multiplication, 1995). As R is over 2^16 times n, sums and doubles of results
//! need no subtraction before the next product (C. Walter, 1999).
//!
//! All is constant time: no branch and no address depends on a modulus, an exponent or a base. Exponent bits become
//! lane masks; a power from a table is chosen by reading the whole table. Only how many tests are made is visible.

use zeroize::Zeroizing;

use super::avx2::{Avx2, Floats, Integers};
use super::engine::LOW_BITS;
use super::limbs_fma::{
    Limbs, Reals, bit_mask, difference, digit, doubled, equal, limb, looked_up, packed, reals,
    selected,
};
use super::natural::{Natural, inverse_modulo_2_64, plus, times};

/// Exponent bits that one product covers: sixteen powers in a table.
const DIGIT_BITS: usize = 4;

/// An odd modulus w with 2^(bits - 1) < w < 2^bits for each lane, and its numbers for the products.
struct Moduli<'a, const L: usize> {
    v: Avx2,
    words: &'a [&'a [u64]],
    bits: usize,
    n: Zeroizing<Limbs<L>>,
    /// (n + 1) / B. The highest limb is 0.
    n_above: Zeroizing<Reals<L>>,
    /// The factor k of n = k w.
    factor: Zeroizing<Limbs<L>>,
    /// R modulo n: 1 in Montgomery form.
    one: Zeroizing<Limbs<L>>,
    /// The number to add to each column of a product: minus the biases of its halves.
    offsets: [[i64; L]; 2],
}

/// Which w, one for each lane, pass Fermat's test for base 2: 2^(w - 1) = 1 modulo w. Each has the same number of words, and
/// its highest bit is set. L is the number of limbs: a limb and 16 bits more than w has.
#[inline(always)]
pub fn fermat<const L: usize>(v: Avx2, candidates: &[&[u64]]) -> u8 {
    let moduli = Moduli::<L>::new(v, candidates);
    // The exponent's highest bit; the lowest is 0, unlike w's.
    let mut power = Zeroizing::new(doubled(v, &moduli.one));
    for bit in (1..moduli.bits - 1).rev() {
        moduli.square(&mut power, bit_mask(v, candidates, bit));
    }
    moduli.square(&mut power, v.all(0));
    let one = moduli.residue(&moduli.one);
    v.bits(equal(v, &moduli.residue(&power), &one))
}

/// Which w pass the strong test (Miller and Rabin's) for their base, 1 < base < w - 1.
#[inline(always)]
pub fn strong<const L: usize>(v: Avx2, candidates: &[&[u64]], bases: &[&[u64]]) -> u8 {
    let moduli = Moduli::<L>::new(v, candidates);
    let base = moduli.montgomery_form(&packed(v, |lane| bases[lane], 0));
    let mut power = moduli.power_of_high_bits(&base);
    let one = moduli.residue(&moduli.one);
    let minus_one = moduli.residue(&difference(v, &moduli.n, &moduli.one).0);
    let mut passed = 0;
    for bit in (1..LOW_BITS).rev() {
        moduli.square(&mut power, v.all(0));
        let is_set = bit_mask(v, candidates, bit);
        let factor = Zeroizing::new(selected(v, is_set, &base, &moduli.one));
        *power = moduli.product(&power, &factor);
        // Now the power is base^((w - 1) / 2^bit), where 2^bit divides w - 1; if the bit is set, no higher power of 2 does.
        let rest = v.lanes(|lane| (candidates[lane][0] & ((1 << bit) - 2)) as i64);
        let divides = v.bits(v.is_same(rest, v.all(0)));
        let power = moduli.residue(&power);
        let is_one = v.bits(v.and(is_set, equal(v, &power, &one)));
        passed |= divides & (is_one | v.bits(equal(v, &power, &minus_one)));
    }
    passed
}

impl<'a, const L: usize> Moduli<'a, L> {
    #[inline(always)]
    fn new(v: Avx2, words: &'a [&'a [u64]]) -> Self {
        let bits = 64 * words[0].len();
        assert!(L * Avx2::LIMB_BITS >= bits + Avx2::LIMB_BITS + 16 && bits > LOW_BITS);
        let factors: Natural = Zeroizing::new(words.iter().map(|w| factor_of(w)).collect());
        let multiples: Vec<Natural> = words
            .iter()
            .zip(&*factors)
            .map(|(w, &factor)| times(w, &[factor]))
            .collect();
        let successors: Vec<Natural> = multiples.iter().map(|n| plus(n, 1)).collect();
        let mut moduli = Self {
            v,
            words,
            bits,
            n: Zeroizing::new(packed(v, |lane| &multiples[lane], 0)),
            n_above: Zeroizing::new(reals(v, &packed(v, |lane| &successors[lane], 1))),
            factor: Zeroizing::new(packed(v, |lane| &factors[lane..=lane], 0)),
            one: Zeroizing::new([v.all(0); L]),
            offsets: offsets::<L>(),
        };
        // The start is 2^(bits - 1), which is below n.
        moduli.one[(bits - 1) / Avx2::LIMB_BITS] = v.all(1 << ((bits - 1) % Avx2::LIMB_BITS));
        for _ in bits - 1..L * Avx2::LIMB_BITS {
            *moduli.one = moduli.canonical(&doubled(v, &moduli.one));
        }
        moduli
    }

    /// x R modulo n: a product with R^2, which is 2^(bits of R) in Montgomery form.
    #[inline(always)]
    fn montgomery_form(&self, x: &Limbs<L>) -> Zeroizing<Limbs<L>> {
        let exponent = L * Avx2::LIMB_BITS;
        let mut square_of_r = self.one.clone();
        for bit in (0..=exponent.ilog2()).rev() {
            let is_set = -((exponent >> bit & 1) as i64);
            self.square(&mut square_of_r, self.v.all(is_set));
        }
        Zeroizing::new(self.product(x, &square_of_r))
    }

    /// base^(w >> LOW_BITS), digit by digit from the highest.
    #[inline(always)]
    fn power_of_high_bits(&self, base: &Limbs<L>) -> Zeroizing<Limbs<L>> {
        let v = self.v;
        let mut table = Zeroizing::new([*self.one; 1 << DIGIT_BITS]);
        for exponent in 1..table.len() {
            table[exponent] = self.product(&table[exponent - 1], base);
        }
        let mut power = self.one.clone();
        for bit in (LOW_BITS..self.bits).step_by(DIGIT_BITS).rev() {
            for _ in 0..DIGIT_BITS {
                self.square(&mut power, v.all(0));
            }
            let index = digit(v, self.words, bit, DIGIT_BITS);
            let factor = Zeroizing::new(looked_up(v, &*table, index));
            *power = self.product(&power, &factor);
        }
        power
    }

    /// `square` becomes its square / R modulo n, doubled in the lanes of the mask. Products of two different limbs are computed once and doubled. Two
    /// rows a pass load and store half as often as one would.
    #[inline(always)]
    fn square(&self, square: &mut Limbs<L>, doubling: Integers) {
        let v = self.v;
        v.compiled(
            #[inline(always)]
            || {
                let x = reals(v, square);
                let mut columns = [[v.all(0); L]; 2];
                let columns = columns.as_flattened_mut();
                for row in (0..L - 1).step_by(2) {
                    let (low, high) = v.halves(x[row], x[row + 1]);
                    add(v, &mut columns[2 * row + 1], low);
                    add_two_rows(
                        v,
                        &mut columns[2 * row + 2..],
                        [x[row], x[row + 1]],
                        high,
                        &x[row + 2..],
                    );
                }
                for (row, &limb) in x.iter().enumerate() {
                    let (low, high) = v.halves(limb, limb);
                    let (even, odd) = (columns[2 * row], columns[2 * row + 1]);
                    columns[2 * row] = v.sum(v.sum(even, even), low);
                    columns[2 * row + 1] = v.sum(v.sum(odd, odd), high);
                }
                self.reduce(columns, doubling, square);
            },
        )
    }

    /// x y / R modulo n.
    #[inline(always)]
    fn product(&self, x: &Limbs<L>, y: &Limbs<L>) -> Limbs<L> {
        let v = self.v;
        v.compiled(
            #[inline(always)]
            || {
                let (x, y) = (reals(v, x), reals(v, y));
                let mut columns = [[v.all(0); L]; 2];
                let columns = columns.as_flattened_mut();
                for (row, &limb) in x.iter().enumerate() {
                    add_row(v, &mut columns[row..], limb, &y);
                }
                let mut product = [v.all(0); L];
                self.reduce(columns, v.all(0), &mut product);
                product
            },
        )
    }

    /// `result` becomes columns / R modulo n, doubled in the lanes of the mask; its limbs are below B again. As
    /// n = B `n_above` - 1, a multiple of it takes the lowest limb away and adds as many times `n_above` one column higher.
    #[inline(always)]
    fn reduce(&self, columns: &mut [Integers], doubling: Integers, result: &mut Limbs<L>) {
        let v = self.v;
        // Each column gets 2^62, so that the shifted number is not negative. This is the part that the previous column carries.
        let carried_bias = v.all(1 << (62 - Avx2::LIMB_BITS));
        let bias = v.less(v.all(1 << 62), carried_bias);
        let mut carried = carried_bias;
        for row in 0..L {
            let offset = v.sum(v.all(self.offsets[0][row]), bias);
            let column = v.sum(v.sum(columns[row], offset), carried);
            carried = v.above_limb(column);
            let quotient = v.real(limb(v, column));
            add_row(v, &mut columns[row + 1..], quotient, &self.n_above[..L - 1]);
        }
        add(v, &mut columns[L], v.less(carried, carried_bias));
        carried = carried_bias;
        for (index, result) in result.iter_mut().enumerate() {
            let column = v.sum(columns[L + index], v.all(self.offsets[1][index]));
            let doubled = v.sum(v.sum(column, bias), v.and(column, doubling));
            let column = v.sum(doubled, carried);
            carried = v.above_limb(column);
            *result = limb(v, column);
        }
    }

    /// The same for all x of a residue class modulo w: x k / R modulo n.
    #[inline(always)]
    fn residue(&self, x: &Limbs<L>) -> Zeroizing<Limbs<L>> {
        Zeroizing::new(self.canonical(&self.product(x, &self.factor)))
    }

    /// The same below n, for x below 2 n.
    #[inline(always)]
    fn canonical(&self, x: &Limbs<L>) -> Limbs<L> {
        let (difference, below) = difference(self.v, x, &self.n);
        selected(self.v, below, x, &difference)
    }
}

/// -1 / w modulo B.
fn factor_of(w: &[u64]) -> u64 {
    inverse_modulo_2_64(w[0]).wrapping_neg() & ((1 << Avx2::LIMB_BITS) - 1)
}

/// A column has one low half for each product of limbs that belongs to it: L times L of the factors, L times L - 1 of the
/// quotient and `n_above`, these one column higher. The column above has as many high halves.
fn offsets<const L: usize>() -> [[i64; L]; 2] {
    let mut offsets = [[0_i64; L]; 2];
    let mut high_halves = 0;
    for (column, offset) in offsets.as_flattened_mut().iter_mut().enumerate() {
        let of_factors = (column + 1).min(2 * L - 1 - column);
        let of_quotient = column.min(L - 1).min(2 * L - 1 - column);
        let low_halves = (of_factors + of_quotient) as i64;
        let bias = Avx2::LOW_BIAS.wrapping_mul(low_halves);
        *offset = bias
            .wrapping_add(Avx2::HIGH_BIAS.wrapping_mul(high_halves))
            .wrapping_neg();
        high_halves = low_halves;
    }
    offsets
}

#[inline(always)]
fn add(v: Avx2, column: &mut Integers, value: Integers) {
    *column = v.sum(*column, value);
}

#[inline(always)]
fn add_row(v: Avx2, columns: &mut [Integers], factor: Floats, y: &[Floats]) {
    let mut high = v.all(0);
    for (column, &y) in columns.iter_mut().zip(y) {
        let (low, next) = v.halves(factor, y);
        add(v, column, v.sum(low, high));
        high = next;
    }
    add(v, &mut columns[y.len()], high);
}

/// The same for two rows, the second one limb higher, and the `high` half that the first row left.
#[inline(always)]
fn add_two_rows(
    v: Avx2,
    columns: &mut [Integers],
    [first, second]: [Floats; 2],
    high: Integers,
    y: &[Floats],
) {
    let Some((&lowest, _)) = y.split_first() else {
        return add(v, &mut columns[0], high);
    };
    let (low, mut high_of_both) = v.halves(first, lowest);
    add(v, &mut columns[0], v.sum(low, high));
    for (column, y) in columns[1..].iter_mut().zip(y.windows(2)) {
        let (low_of_first, high_of_first) = v.halves(first, y[1]);
        let (low_of_second, high_of_second) = v.halves(second, y[0]);
        let low = v.sum(low_of_first, low_of_second);
        add(v, column, v.sum(low, high_of_both));
        high_of_both = v.sum(high_of_first, high_of_second);
    }
    let (low, high) = v.halves(second, y[y.len() - 1]);
    add(v, &mut columns[y.len()], v.sum(low, high_of_both));
    add(v, &mut columns[y.len() + 1], high);
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    fn in_lane(v: Avx2, x: Integers, lane: usize) -> i64 {
        let is_set = |bit: usize| {
            let mask = v.all(1 << bit);
            v.bits(v.is_same(v.and(x, mask), mask)) >> lane & 1
        };
        (0..64).fold(0, |word, bit| word | i64::from(is_set(bit)) << bit)
    }

    fn unpacked<const L: usize>(v: Avx2, limbs: &Limbs<L>) -> Vec<BigUint> {
        let number = |lane| {
            limbs.iter().rev().fold(BigUint::ZERO, |number, &limb| {
                let limb = in_lane(v, limb, lane);
                assert!(limb >> Avx2::LIMB_BITS == 0, "a limb");
                (number << Avx2::LIMB_BITS) + limb as u64
            })
        };
        (0..Avx2::LANES).map(number).collect()
    }

    /// The least, the largest, and random ones.
    fn moduli(random: &mut Seeded, words: usize) -> Vec<Natural> {
        let ones = BigUint::from_bytes_le(&vec![0xff; 8 * words]);
        let half = (&ones >> 1_u32) + 2_u32;
        let modulus = |lane| match lane {
            0 => natural(&ones, words),
            1 => natural(&half, words),
            _ => {
                let mut modulus = random.natural(words);
                modulus[0] |= 1;
                modulus[words - 1] |= 1 << 63;
                modulus
            }
        };
        (0..Avx2::LANES).map(modulus).collect()
    }

    fn assert_arithmetic<const L: usize>(v: Avx2, random: &mut Seeded, words: usize) {
        let w = moduli(random, words);
        let slices: Vec<&[u64]> = w.iter().map(|w| w.as_slice()).collect();
        let moduli = Moduli::<L>::new(v, &slices);
        let w: Vec<BigUint> = w.iter().map(|w| big(w)).collect();
        let n = unpacked(v, &moduli.n);
        let r = BigUint::from(1_u32) << (L * Avx2::LIMB_BITS);
        let x: Vec<BigUint> = (0..Avx2::LANES)
            .map(|lane| match lane {
                0 | 1 => &w[lane] - 1_u32,
                2 => BigUint::ZERO,
                _ => big(&random.natural(words)) % &w[lane],
            })
            .collect();
        let bases: Vec<Natural> = x.iter().map(|x| natural(x, words)).collect();
        let form = moduli.montgomery_form(&packed(v, |lane| &bases[lane], 0));
        let twice = [0_u32, 1, 0, 1, 1, 0, 1, 0];
        let doubling = v.lanes(|lane| -i64::from(twice[lane]));
        let mut square = *form;
        moduli.square(&mut square, doubling);
        let square = unpacked(v, &square);
        let product = unpacked(v, &moduli.product(&form, &moduli.one));
        let reduced = unpacked(v, &moduli.canonical(&form));
        let power = moduli.power_of_high_bits(&form);
        let residue = unpacked(v, &moduli.residue(&power));
        let power = unpacked(v, &power);
        for lane in 0..Avx2::LANES {
            let (w, n, x) = (&w[lane], &n[lane], &x[lane]);
            let base = BigUint::from(1_u32) << Avx2::LIMB_BITS;
            assert!(n % w == BigUint::ZERO && (n + 1_u32) % &base == BigUint::ZERO);
            assert!(square[lane] < n * 4_u32 && product[lane] < n * 2_u32);
            let wanted = x * x * &r * (1 + twice[lane]) % w;
            assert_eq!(&square[lane] % w, wanted, "lane {lane}");
            assert_eq!(&product[lane] % w, x * &r % w, "lane {lane}");
            assert!(reduced[lane] < *n && &reduced[lane] % w == x * &r % w);
            let wanted = x.modpow(&(w >> LOW_BITS), w) * &r % w;
            assert_eq!(&power[lane] % w, wanted, "lane {lane}");
            // The result belongs to the residue class, not to the number.
            let residue_of = |x: &BigUint| x * (n / w) * r.modinv(n).expect("odd") % n;
            assert_eq!(residue[lane], residue_of(&wanted), "lane {lane}");
        }
    }

    #[test]
    fn arithmetic_in_avx2_lanes_agrees_with_an_independent_library() {
        let Some(v) = Avx2::detected() else {
            return eprintln!("skipped: this CPU has no AVX2 or no FMA");
        };
        let mut random = Seeded::new(4);
        for _ in 0..10 {
            assert_arithmetic::<22>(v, &mut random, 16);
            assert_arithmetic::<32>(v, &mut random, 24);
            assert_arithmetic::<42>(v, &mut random, 32);
        }
    }

    /// The limbs that make the largest products, and the least.
    #[test]
    fn both_halves_of_a_product_are_exact() {
        let Some(v) = Avx2::detected() else {
            return eprintln!("skipped: this CPU has no AVX2 or no FMA");
        };
        let largest = (1_i64 << Avx2::LIMB_BITS) - 1;
        let edges = [0, 1, 2, largest / 2, largest / 2 + 1, largest - 1, largest];
        let mut random = Seeded::new(5);
        for a in edges
            .into_iter()
            .chain((0..100).map(|_| random.next() as i64 & largest))
        {
            for b in edges {
                let (low, high) = v.halves(v.real(v.all(a)), v.real(v.all(b)));
                let low = in_lane(v, low, 0).wrapping_sub(Avx2::LOW_BIAS);
                let high = in_lane(v, high, 0).wrapping_sub(Avx2::HIGH_BIAS);
                let product = (i128::from(high) << Avx2::LIMB_BITS) + i128::from(low);
                assert_eq!(product, i128::from(a) * i128::from(b));
            }
        }
    }
}
