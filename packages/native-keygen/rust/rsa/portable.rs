//! Candidates tested one at a time by aws-lc's exponentiation (BN_mod_exp_mont_consttime), on any CPU.

use subtle::{Choice, ConstantTimeEq};

use super::bignum::{Bignum, Modulus};
use super::engine::{Engine, LOW_BITS, StrongTest};
use super::natural::{even_below, from_word, minus, selected, shifted_right};
use super::secrecy::public;
use super::sieve::{Bitmap, Sieve};
use crate::key_error::KeyError;

pub struct Portable;

impl Engine for Portable {
    fn width(&self) -> usize {
        1
    }

    fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap {
        sieve.survivors(start)
    }

    fn fermat(&self, candidates: &[&[u64]]) -> Result<u8, KeyError> {
        bits_of(candidates, |candidate| passes_fermat(candidate))
    }

    fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
        bits_of(tests, |test| passes_strong(test.candidate, test.base))
    }
}

fn bits_of<T>(tests: &[T], passes: impl Fn(&T) -> Result<bool, KeyError>) -> Result<u8, KeyError> {
    let mut bits = 0;
    for (index, test) in tests.iter().enumerate() {
        bits |= u8::from(passes(test)?) << index;
    }
    Ok(bits)
}

/// Uses the base w - 2, that is -2: the exponent is even, and aws-lc has no fast path for a base of one word.
fn passes_fermat(w: &[u64]) -> Result<bool, KeyError> {
    let base = minus(w, &from_word(2, w.len())).0;
    let power = Modulus::new(w)?.power(
        &Bignum::from_natural(&base)?,
        &Bignum::from_natural(&even_below(w))?,
    )?;
    Ok(public(power.ct_eq(&Bignum::from_natural(&[1])?).into()))
}

/// The high bits of the exponent at once, then the low ones one by one, whatever their values: the number of factors 2 in
/// w - 1 stays hidden.
fn passes_strong(w: &[u64], base: &[u64]) -> Result<bool, KeyError> {
    let modulus = Modulus::new(w)?;
    let number = Bignum::from_natural;
    let one = modulus.montgomery_form(&number(&from_word(1, w.len()))?)?;
    let minus_one = modulus.montgomery_form(&number(&even_below(w))?)?;
    let high_bits = number(&shifted_right(w, LOW_BITS as u32))?;
    let power = modulus.power(&number(base)?, &high_bits)?;
    let mut power = modulus.montgomery_form(&power)?;
    let base = modulus
        .montgomery_form(&number(base)?)?
        .to_natural(w.len())?;
    let one_words = one.to_natural(w.len())?;
    let mut passed = Choice::from(0);
    for bit in (1..LOW_BITS).rev() {
        let is_set = Choice::from((w[0] >> bit) as u8 & 1);
        let factor = number(&selected(is_set, &base, &one_words))?;
        let square = modulus.product(&power, &power)?;
        power = modulus.product(&square, &factor)?;
        // Now the power is base^((w - 1) / 2^bit), where 2^bit divides w - 1; if the bit is set, no higher power of 2 does.
        let divides = (w[0] & ((1 << bit) - 2)).ct_eq(&0);
        passed |= divides & (power.ct_eq(&minus_one) | (is_set & power.ct_eq(&one)));
    }
    Ok(public(passed.into()))
}
