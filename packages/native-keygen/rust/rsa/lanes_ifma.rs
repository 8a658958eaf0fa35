//! Exponentiation modulo eight secret numbers at once, one in each 64-bit lane of the AVX-512 registers, by the 52-bit
//! multiplications of AVX-512 IFMA ("Integer Fused Multiply-Add").
//!
//! Numbers stand in limbs of 52 bits, limb by limb: the i-th vector has the i-th limb of all eight. Products are
//! Montgomery's (Modular multiplication without trial division, 1985) with R = 2^(52 L); as R is over 2^16 times the
//! moduli, sums and doubles of results need no subtraction before the next product (C. Walter, 1999).
//!
//! All is constant time: no branch and no address depends on a modulus, an exponent or a base. Exponent bits become
//! lane masks; a power from a table is chosen by reading the whole table. Only how many tests are made is visible.

use zeroize::Zeroizing;

use super::avx512::{
    __mmask8, _mm512_add_epi64, _mm512_mask_add_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_testn_epi64_mask,
};
use super::engine::{LOW_BITS, MAX_WIDTH as LANES};
use super::limbs_ifma::{
    DIGIT_BITS, LIMB_BITS, Lanes, Limbs, bit_mask, carry, difference, digit, doubled, equal, high,
    looked_up, low, minus_inverse, packed, selected, split,
};

/// Eight odd moduli w with 2^(bits - 1) < w < 2^bits, and their numbers for the products.
struct Moduli<const L: usize> {
    bits: usize,
    w: Zeroizing<Limbs<L>>,
    /// -1 / w modulo 2^52.
    inverse: Zeroizing<Lanes>,
    /// R modulo w: 1 in Montgomery form, below w.
    one: Zeroizing<Limbs<L>>,
}

/// Which of eight w pass Fermat's test for base 2: 2^(w - 1) = 1 modulo w. Each has the same number of words, and its
/// highest bit is set. L is the number of limbs: at least 16 bits more than w has, and even.
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
pub fn fermat<const L: usize>(candidates: [&[u64]; LANES]) -> u8 {
    let moduli = Moduli::<L>::new(candidates);
    // The exponent's highest bit; the lowest is 0, unlike w's.
    let mut power = Zeroizing::new(doubled(&moduli.one));
    for bit in (1..moduli.bits - 1).rev() {
        *power = moduli.square(&power, bit_mask(&moduli.w, bit));
    }
    let power = Zeroizing::new(moduli.square(&power, 0));
    equal(&moduli.canonical(&power), &moduli.one)
}

/// Which of eight w pass the strong test (Miller and Rabin's) for their base, 1 < base < w - 1.
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
pub fn strong<const L: usize>(candidates: [&[u64]; LANES], bases: [&[u64]; LANES]) -> u8 {
    let moduli = Moduli::<L>::new(candidates);
    let base = moduli.montgomery_form(&packed(bases));
    let mut power = moduli.power_of_high_bits(&base);
    let minus_one = Zeroizing::new(difference(&moduli.w, &moduli.one).0);
    let mut passed = 0;
    for bit in (1..LOW_BITS).rev() {
        *power = moduli.square(&power, 0);
        let is_set = bit_mask(&moduli.w, bit);
        let factor = Zeroizing::new(selected(is_set, &base, &moduli.one));
        *power = moduli.product(&power, &factor);
        // Now the power is base^((w - 1) / 2^bit), where 2^bit divides w - 1; if the bit is set, no higher power of 2 does.
        let rest = _mm512_set1_epi64((1 << bit) - 2);
        let divides = _mm512_testn_epi64_mask(moduli.w[0], rest);
        let power = Zeroizing::new(moduli.canonical(&power));
        let is_one = equal(&power, &moduli.one);
        passed |= divides & (equal(&power, &minus_one) | (is_set & is_one));
    }
    passed
}

impl<const L: usize> Moduli<L> {
    #[inline]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn new(candidates: [&[u64]; LANES]) -> Self {
        let bits = 64 * candidates[0].len();
        assert!(L * LIMB_BITS >= bits + 16 && L.is_multiple_of(2) && bits > LOW_BITS);
        let w = Zeroizing::new(packed::<L>(candidates));
        let mut moduli = Self {
            bits,
            inverse: Zeroizing::new(minus_inverse(w[0])),
            w,
            one: Zeroizing::new([_mm512_setzero_si512(); L]),
        };
        // The start is 2^(bits - 1), which is below w.
        moduli.one[(bits - 1) / LIMB_BITS] = _mm512_set1_epi64(1 << ((bits - 1) % LIMB_BITS));
        for _ in bits - 1..L * LIMB_BITS {
            *moduli.one = moduli.canonical(&doubled(&moduli.one));
        }
        moduli
    }

    /// x R modulo w: a product with R^2, which is 2^(52 L) in Montgomery form.
    #[inline]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn montgomery_form(&self, x: &Limbs<L>) -> Zeroizing<Limbs<L>> {
        let exponent = L * LIMB_BITS;
        let mut square_of_r = self.one.clone();
        for bit in (0..=exponent.ilog2()).rev() {
            let is_set = if exponent >> bit & 1 == 1 { 0xff } else { 0 };
            *square_of_r = self.square(&square_of_r, is_set);
        }
        Zeroizing::new(self.product(x, &square_of_r))
    }

    /// base^(w >> LOW_BITS), digit by digit from the highest.
    #[inline]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn power_of_high_bits(&self, base: &Limbs<L>) -> Zeroizing<Limbs<L>> {
        let mut table = Zeroizing::new([*self.one; 1 << DIGIT_BITS]);
        for exponent in 1..table.len() {
            table[exponent] = self.product(&table[exponent - 1], base);
        }
        let mut power = self.one.clone();
        for bit in (LOW_BITS..self.bits).step_by(DIGIT_BITS).rev() {
            for _ in 0..DIGIT_BITS {
                *power = self.square(&power, 0);
            }
            let factor = Zeroizing::new(looked_up(&*table, digit(&self.w, bit)));
            *power = self.product(&power, &factor);
        }
        power
    }

    /// x^2 / R modulo w, doubled in the lanes of `twice`.
    #[inline(never)]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn square(&self, x: &Limbs<L>, twice: __mmask8) -> Limbs<L> {
        let mut columns = [[_mm512_setzero_si512(); L]; 2];
        let columns = columns.as_flattened_mut();
        for row in (0..L).step_by(2) {
            let (first, second) = (x[row], x[row + 1]);
            columns[2 * row + 1] = low(columns[2 * row + 1], first, second);
            let mut high_part = high(_mm512_setzero_si512(), first, second);
            for column in row + 2..L {
                let other = x[column];
                let sum = low(columns[row + column], first, other);
                columns[row + column] = _mm512_add_epi64(sum, high_part);
                high_part = low(high(_mm512_setzero_si512(), first, other), second, other);
                columns[row + column + 2] = high(columns[row + column + 2], second, other);
            }
            columns[row + L] = _mm512_add_epi64(columns[row + L], high_part);
        }
        for (row, &limb) in x.iter().enumerate() {
            let (even, odd) = (columns[2 * row], columns[2 * row + 1]);
            columns[2 * row] = low(_mm512_add_epi64(even, even), limb, limb);
            columns[2 * row + 1] = high(_mm512_add_epi64(odd, odd), limb, limb);
        }
        self.reduced(columns, twice)
    }

    /// x y / R modulo w.
    #[inline(never)]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn product(&self, x: &Limbs<L>, y: &Limbs<L>) -> Limbs<L> {
        let mut columns = [[_mm512_setzero_si512(); L]; 2];
        let columns = columns.as_flattened_mut();
        for row in (0..L).step_by(2) {
            let (first, second) = (x[row], x[row + 1]);
            columns[row] = low(columns[row], first, y[0]);
            let next = high(low(columns[row + 1], first, y[1]), first, y[0]);
            columns[row + 1] = low(next, second, y[0]);
            add_two_rows(&mut columns[row..row + L + 2], first, second, y);
        }
        self.reduced(columns, 0)
    }

    /// columns / R modulo w, doubled in the lanes of `twice`; the limbs have 52 bits again. Two rows a pass load and
    /// store half as often as one would.
    #[inline]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn reduced(&self, columns: &mut [Lanes], twice: __mmask8) -> Limbs<L> {
        let (w, inverse, zero) = (&self.w, *self.inverse, _mm512_setzero_si512());
        for row in (0..L).step_by(2) {
            let first = low(zero, columns[row], inverse);
            let lowest = low(columns[row], first, w[0]);
            let next = high(low(columns[row + 1], first, w[1]), first, w[0]);
            let next = _mm512_add_epi64(next, carry(lowest));
            let second = low(zero, next, inverse);
            let next = low(next, second, w[0]);
            columns[row + 2] = _mm512_add_epi64(columns[row + 2], carry(next));
            add_two_rows(&mut columns[row..row + L + 2], first, second, w);
        }
        let mut result = [zero; L];
        let mut carried = zero;
        for (result, &column) in result.iter_mut().zip(&columns[L..]) {
            let sum = _mm512_mask_add_epi64(column, twice, column, column);
            (*result, carried) = split(_mm512_add_epi64(sum, carried));
        }
        result
    }

    /// The same below w, for x below 2 w.
    #[inline]
    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn canonical(&self, x: &Limbs<L>) -> Limbs<L> {
        let (difference, below) = difference(x, &self.w);
        selected(below, x, &difference)
    }
}

/// (first + second 2^52) y, added to all columns except the two lowest, which the caller has done.
#[inline]
#[cfg_attr(
    not(feature = "emulated-simd"),
    target_feature(enable = "avx512f,avx512ifma")
)]
fn add_two_rows<const L: usize>(columns: &mut [Lanes], first: Lanes, second: Lanes, y: &Limbs<L>) {
    for column in 2..L {
        let sum = high(low(columns[column], first, y[column]), first, y[column - 1]);
        columns[column] = high(low(sum, second, y[column - 1]), second, y[column - 2]);
    }
    let sum = low(high(columns[L], first, y[L - 1]), second, y[L - 1]);
    columns[L] = high(sum, second, y[L - 2]);
    columns[L + 1] = high(columns[L + 1], second, y[L - 1]);
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::avx512::is_available;
    use crate::rsa::natural::Natural;
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    fn unpacked<const L: usize>(limbs: &Limbs<L>) -> [BigUint; LANES] {
        std::array::from_fn(|lane| {
            limbs.iter().rev().fold(BigUint::ZERO, |number, limb| {
                // SAFETY: both are 64 bytes without a wrong value.
                let lanes = unsafe { core::mem::transmute::<Lanes, [u64; LANES]>(*limb) };
                assert!(lanes[lane] >> LIMB_BITS == 0, "limbs of 52 bits");
                (number << LIMB_BITS) + lanes[lane]
            })
        })
    }

    fn words<const N: usize>(naturals: &[Natural; N]) -> [&[u64]; N] {
        std::array::from_fn(|index| naturals[index].as_slice())
    }

    /// The least, the largest, and random ones.
    fn moduli(random: &mut Seeded, words: usize) -> [Natural; LANES] {
        let ones = BigUint::from_bytes_le(&vec![0xff; 8 * words]);
        let half = (&ones >> 1_u32) + 2_u32;
        std::array::from_fn(|lane| match lane {
            0 => natural(&ones, words),
            1 => natural(&half, words),
            _ => {
                let mut modulus = random.natural(words);
                modulus[0] |= 1;
                modulus[words - 1] |= 1 << 63;
                modulus
            }
        })
    }

    #[cfg_attr(
        not(feature = "emulated-simd"),
        target_feature(enable = "avx512f,avx512ifma")
    )]
    fn assert_arithmetic<const L: usize>(random: &mut Seeded, number_of_words: usize) {
        let w = moduli(random, number_of_words);
        let moduli = Moduli::<L>::new(words(&w));
        let w = w.each_ref().map(|w| big(w));
        let r = BigUint::from(1_u32) << (L * LIMB_BITS);
        let edges = [0_u32, 1, 2].map(BigUint::from);
        let x: [BigUint; LANES] = std::array::from_fn(|lane| match lane {
            0 => &w[0] - 1_u32,
            1 => &w[1] - 1_u32,
            2..5 => edges[lane - 2].clone(),
            _ => big(&random.natural(number_of_words)) % &w[lane],
        });
        let base = x.each_ref().map(|x| natural(x, number_of_words));
        let form = moduli.montgomery_form(&packed(words(&base)));
        let twice = 0b0101_1010;
        let square = unpacked(&moduli.square(&form, twice));
        let product = unpacked(&moduli.product(&form, &moduli.one));
        let reduced = unpacked(&moduli.canonical(&form));
        let power = unpacked(&moduli.canonical(&moduli.power_of_high_bits(&form)));
        for (lane, (w, x)) in w.iter().zip(&x).enumerate() {
            let factor = 1 + u32::from(twice >> lane & 1);
            assert!(square[lane] < w * 4_u32 && product[lane] < w * 2_u32);
            assert_eq!(&square[lane] % w, x * x * &r * factor % w, "lane {lane}");
            assert_eq!(&product[lane] % w, x * &r % w, "lane {lane}");
            assert_eq!(reduced[lane], x * &r % w, "lane {lane}");
            let exponent = w >> LOW_BITS;
            assert_eq!(power[lane], x.modpow(&exponent, w) * &r % w, "lane {lane}");
        }
        let low_bits = 0..L * LIMB_BITS;
        for bit in low_bits
            .step_by(DIGIT_BITS)
            .filter(|bit| bit + 4 < 64 * number_of_words)
        {
            let digits = [digit(&moduli.w, bit)];
            for (digit, w) in unpacked(&digits).iter().zip(&w) {
                assert_eq!(*digit, w >> bit & BigUint::from(15_u32));
            }
        }
    }

    #[test]
    #[cfg_attr(feature = "emulated-simd", allow(unused_unsafe))]
    fn arithmetic_in_lanes_agrees_with_an_independent_library() {
        if !is_available() {
            return eprintln!("skipped: this CPU has no AVX-512 IFMA");
        }
        let mut random = Seeded::new(4);
        for _ in 0..10 {
            // SAFETY: the CPU has AVX-512F and AVX-512 IFMA, as was asked.
            unsafe {
                assert_arithmetic::<20>(&mut random, 16);
                assert_arithmetic::<30>(&mut random, 24);
                assert_arithmetic::<40>(&mut random, 32);
            }
        }
    }
}
