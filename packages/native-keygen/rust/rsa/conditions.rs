//! The private key that two primes make, and the conditions of FIPS 186-5 on it.

use super::bignum::{Bignum, Modulus, greatest_common_divisor};
use super::natural::{
    Natural, divided_exactly, even_below, from_word, less_than, minus, plus, power_of_two,
    shifted_right, times,
};
use super::secrecy::public;
use super::standard::{EXPONENT, LEAST_HIGHEST_WORD};
use crate::key_error::KeyError;

/// RFC 8017, section 3.2, with p > q.
pub struct Parts {
    pub n: Natural,
    pub d: Natural,
    pub p: Natural,
    pub q: Natural,
    /// d modulo p - 1 and q - 1.
    pub exponents: [Natural; 2],
    /// 1 / q modulo p.
    pub coefficient: Natural,
}

impl Parts {
    /// `None` if the primes do not fit together, which practically never happens: the caller must find others.
    pub fn of(primes: [Natural; 2]) -> Result<Option<Self>, KeyError> {
        let [a, b] = primes;
        let (p, q) = if public(less_than(&a, &b)) {
            (b, a)
        } else {
            (a, b)
        };
        let fit = are_large(&p, &q) & are_far_apart(&p, &q) & fit_exponent(&p, &q);
        if !public(fit) {
            return Ok(None);
        }
        let (p_minus_1, q_minus_1) = (even_below(&p), even_below(&q));
        let Some(totient) = least_common_multiple(&p_minus_1, &q_minus_1)? else {
            return Ok(None);
        };
        let d = inverse_of_exponent(&totient);
        if !public(is_large_exponent(&d)) {
            return Ok(None);
        }
        // q^(p - 2) = 1 / q modulo p, which is prime.
        let p_minus_2 = minus(&p, &from_word(2, p.len())).0;
        let coefficient = Modulus::new(&p)?
            .power(
                &Bignum::from_natural(&q)?,
                &Bignum::from_natural(&p_minus_2)?,
            )?
            .to_natural(p.len())?;
        Ok(Some(Self {
            n: times(&p, &q),
            d,
            exponents: [
                inverse_of_exponent(&p_minus_1),
                inverse_of_exponent(&q_minus_1),
            ],
            p,
            q,
            coefficient,
        }))
    }
}

/// Appendix A.1.1, criterion 2, and A.1.3, steps 4.4 and 5.4: 2^(nlen/2 - 1) sqrt 2 <= p, q < 2^(nlen/2), so that the
/// product has exactly nlen bits.
fn are_large(p: &[u64], q: &[u64]) -> bool {
    let large = |prime: &[u64]| prime.last() >= Some(&LEAST_HIGHEST_WORD);
    large(p) & large(q)
}

/// Appendix A.1.1, criterion 2, and A.1.3, step 5.5: |p - q| > 2^(nlen/2 - 100). Here p is the larger one.
fn are_far_apart(p: &[u64], q: &[u64]) -> bool {
    let (difference, below) = minus(p, q);
    let least = power_of_two(64 * p.len() - 100, p.len());
    (below == 0) & less_than(&least, &difference)
}

/// Appendix A.1.1, criterion 2, and A.1.3, steps 4.5 and 5.6: p - 1 and q - 1 have no factor in common with e, a prime.
fn fit_exponent(p: &[u64], q: &[u64]) -> bool {
    (modulo_exponent(p) != 1) & (modulo_exponent(q) != 1)
}

/// Appendix A.1.1, criterion 3: 2^(nlen/2) < d; below the least common multiple it is by its making.
fn is_large_exponent(d: &[u64]) -> bool {
    less_than(&power_of_two(32 * d.len(), d.len()), d)
}

/// Appendix A.1.1, criterion 3: d is 1 / e modulo lcm(p - 1, q - 1). None if the greatest common divisor needs more than 64
/// bits, one in 2^60 pairs. The divisor divides n - 1 as well, so that its size is all but public; the products are not.
fn least_common_multiple(a: &[u64], b: &[u64]) -> Result<Option<Natural>, KeyError> {
    let divisor = greatest_common_divisor(a, b)?;
    let (low, high) = (divisor[0], &divisor[1..]);
    let is_short = high.iter().fold(0, |all, word| all | word) == 0;
    if !public((low != 0) & is_short) {
        return Ok(None);
    }
    let twos = public(low.trailing_zeros());
    let product = shifted_right(&times(a, b), twos);
    Ok(Some(divided_exactly(&product, low >> twos)))
}

/// 1 / e modulo m for m without the factor e: (1 + k m) / e with the k < e that makes it a whole number, k = -1 / m
/// modulo e. As e is public and short, that takes a product and an exact division.
fn inverse_of_exponent(m: &[u64]) -> Natural {
    // Fermat: m^(e - 2) = 1 / m modulo e, by as many products for every m.
    let residue = modulo_exponent(m);
    let product = |a: u64, b: u64| a.wrapping_mul(b) % EXPONENT;
    let inverse = (0..16).fold((1, residue), |(power, square), _| {
        // e - 2 = 65535, all ones.
        (product(power, square), product(square, square))
    });
    let k = EXPONENT.wrapping_sub(inverse.0);
    let dividend = plus(&times(m, &[k]), 1);
    let mut quotient = divided_exactly(&dividend, EXPONENT);
    quotient.truncate(m.len());
    quotient
}

/// As 2^16 is -1 modulo e = 2^16 + 1: the alternating sum of the digits of 16 bits. (The remainder by a constant is
/// compiled to a product: no division instruction, whose time would depend on the number.)
fn modulo_exponent(natural: &[u64]) -> u64 {
    let sum = natural.iter().fold(0_u64, |sum, word| {
        let digit = |index: u32| (word >> (16 * index)) & 0xffff;
        let even = digit(0).wrapping_add(digit(2));
        let odd = digit(1).wrapping_add(digit(3));
        sum.wrapping_add(even)
            .wrapping_add(2 * EXPONENT)
            .wrapping_sub(odd)
    });
    sum % EXPONENT
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::known_numbers::{PRIMES, words_of};
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    fn parts(p: &[u64], q: &[u64]) -> Option<Parts> {
        let owned = |natural: &[u64]| Natural::new(natural.to_vec());
        Parts::of([owned(p), owned(q)]).expect("aws-lc to compute")
    }

    /// An odd number of 1,024 bits need not be a prime to be checked by the conditions.
    fn with_difference(difference: &BigUint) -> Option<Parts> {
        let p = words_of(PRIMES[0]);
        parts(&p, &natural(&(big(&p) - difference), p.len()))
    }

    fn divisor(a: &BigUint, b: &BigUint) -> BigUint {
        if *b == BigUint::ZERO {
            a.clone()
        } else {
            divisor(b, &(a % b))
        }
    }

    #[test]
    fn the_private_exponent_is_the_inverse_modulo_the_least_common_multiple() {
        let mut random = Seeded::new(11);
        let p = words_of(PRIMES[0]);
        let e = BigUint::from(EXPONENT);
        for factor in [1_u32, 3, 4, 30, 1 << 31] {
            // q - 1 shares twice the factor with p - 1, or more.
            let unit = big(&p) - 1_u32;
            let shared = divisor(&unit, &(BigUint::from(factor) * 2_u32));
            let q = loop {
                let mut q = random.natural(16);
                q[15] |= 3 << 62;
                let q = big(&q) / (&shared * 2_u32) * &shared * 2_u32 + 1_u32;
                if &q % &e != BigUint::from(1_u32) {
                    break q;
                }
            };
            let parts = parts(&p, &natural(&q, 16)).expect("fitting primes");
            let (p, q) = (big(&parts.p), big(&parts.q));
            assert!(p > q);
            let (p_minus_1, q_minus_1) = (&p - 1_u32, &q - 1_u32);
            let multiple = &p_minus_1 * &q_minus_1 / divisor(&p_minus_1, &q_minus_1);
            assert_eq!(Some(big(&parts.d)), e.modinv(&multiple));
            assert_eq!(Some(big(&parts.exponents[0])), e.modinv(&p_minus_1));
            assert_eq!(Some(big(&parts.exponents[1])), e.modinv(&q_minus_1));
            assert_eq!(big(&parts.n), &p * &q);
        }
    }

    #[test]
    fn primes_too_close_are_refused() {
        let limit = BigUint::from(1_u32) << (1024_u32 - 100);
        assert!(with_difference(&BigUint::ZERO).is_none());
        assert!(with_difference(&BigUint::from(2_u32)).is_none());
        assert!(with_difference(&limit).is_none());
        assert!(with_difference(&(limit + 2_u32)).is_some());
    }

    #[test]
    fn primes_too_small_are_refused() {
        let p = words_of(PRIMES[0]);
        let mut q = p.clone();
        q[15] = LEAST_HIGHEST_WORD;
        assert!(parts(&p, &q).is_some());
        q[15] -= 1;
        assert!(parts(&p, &q).is_none());
    }

    #[test]
    fn a_prime_that_is_1_modulo_the_exponent_is_refused() {
        let p = words_of(PRIMES[0]);
        let far = big(&p) - (BigUint::from(1_u32) << 1000_u32);
        let q = (((far / EXPONENT) >> 1_u32) << 1_u32) * EXPONENT + 1_u32;
        assert!(parts(&p, &natural(&(&q + 2_u32), 16)).is_some());
        assert!(q.bits() == 1024 && parts(&p, &natural(&q, 16)).is_none());
        let mut random = Seeded::new(12);
        for _ in 0..100 {
            let number = random.natural(16);
            assert_eq!(
                BigUint::from(modulo_exponent(&number)),
                big(&number) % EXPONENT
            );
        }
    }

    #[test]
    fn a_private_exponent_must_be_longer_than_half_the_modulus() {
        let mut d = power_of_two(1024, 32);
        assert!(!is_large_exponent(&d));
        d[0] = 1;
        assert!(is_large_exponent(&d));
        assert!(!is_large_exponent(&power_of_two(1023, 32)));
    }
}
