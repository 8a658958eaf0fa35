//! The certainty that a number is a prime.
//!
//! Candidates are random: the odd numbers of a window from a random start. So the error is far below the 4^-t of the worst
//! case. For t bases and uniform candidates of k bits it is at most p(k,t) of I. Damgård, P. Landrock and C. Pomerance,
//! Average case error estimates for the strong probable prime test (1993), the formula behind the numbers of rounds in FIPS
//! 186-5, appendix B.3, table B.1: p(1024,5) < 2^-124, and less for longer candidates. Uniform candidates with the two
//! highest bits as FIPS 186-5 wants them are 0.58 of all of k bits, and the first composite of a window that passes may be
//! any of its numbers: a window has 2,048 odd numbers where one in 355 is a prime, so the bound grows by less than a factor
//! of 12 (J. Brandt and I. Damgård, On generation of probable primes by incremental search, 1992). The result is below
//! 2^-119. Fermat's test for base 2, which every candidate has passed, is not counted.

use super::engine::{Engine, MAX_WIDTH, StrongTest};
use super::natural::{Natural, even_below, from_word, less_than};
use super::random::Random;
use super::secrecy::public;
use super::standard::ROUNDS;
use crate::key_error::KeyError;

/// Whether each of two candidates is a prime, by ROUNDS random bases for each.
pub fn are_primes(
    engine: &dyn Engine,
    candidates: [&[u64]; 2],
    random: &mut dyn Random,
) -> Result<[bool; 2], KeyError> {
    let mut bases = Vec::with_capacity(2 * ROUNDS);
    for candidate in candidates {
        for _ in 0..ROUNDS {
            bases.push((candidate, random_base(candidate, random)?));
        }
    }
    let tests: Vec<_> = bases
        .iter()
        .map(|(candidate, base)| StrongTest { candidate, base })
        .collect();
    let mut are_primes = [true; 2];
    for (batch, tests) in tests.chunks(MAX_WIDTH).enumerate() {
        let passed = public(engine.strong(tests)?);
        for index in 0..tests.len() {
            let candidate = (batch * MAX_WIDTH + index) / ROUNDS;
            are_primes[candidate] &= passed >> index & 1 == 1;
        }
    }
    Ok(are_primes)
}

/// FIPS 186-5, appendix B.3.1, steps 4.1 and 4.2: uniform among 1 < b < w - 1. A base that is thrown away is not a secret.
fn random_base(w: &[u64], random: &mut dyn Random) -> Result<Natural, KeyError> {
    let (two, top) = (from_word(2, w.len()), even_below(w));
    loop {
        let base = random.natural(w.len())?;
        if public(!less_than(&base, &two) & less_than(&base, &top)) {
            return Ok(base);
        }
    }
}
