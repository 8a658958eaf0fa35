//! How sure it is that a number is a prime.
//!
//! Candidates come at random (a window of odd numbers from a random start), so the error is far below the 4^-t of the
//! worst case. For t bases and uniform candidates of k bits it is at most p(k,t) of I. Damgård, P. Landrock and C.
//! Pomerance, Average case error estimates for the strong probable prime test (1993), the formula behind the numbers of
//! rounds in FIPS 186-5, appendix B.3, table B.1: p(1024,4) < 2^-109, and less for longer candidates. Uniform candidates
//! with the two highest bits as FIPS 186-5 wants them are 0.58 of all of k bits, and the first composite of a window that
//! passes may be any of its numbers: a window of 2,048 instead of the 355 odd numbers a prime, so that the bound grows by
//! less than 12 (J. Brandt and I. Damgård, On generation of probable primes by incremental search, 1992). That makes
//! 2^-105, where 2^-100 is asked for; and Fermat's test for base 2, which every candidate has passed, is not counted.

use super::engine::{Engine, MAX_WIDTH, StrongTest};
use super::natural::{Natural, even_below, from_word, less_than};
use super::random::Random;
use crate::key_error::KeyError;

/// FIPS 186-5, table B.1, for an error below 2^-100 with primes of 1,024 bits; longer ones need fewer.
pub const ROUNDS: usize = MAX_WIDTH / 2;

/// Whether each of two candidates is a prime, by ROUNDS random bases for each.
pub fn are_primes(
    engine: &dyn Engine,
    candidates: [&[u64]; 2],
    random: &mut dyn Random,
) -> Result<[bool; 2], KeyError> {
    let mut bases = Vec::with_capacity(MAX_WIDTH);
    for candidate in candidates {
        for _ in 0..ROUNDS {
            bases.push((candidate, random_base(candidate, random)?));
        }
    }
    let tests: Vec<_> = bases
        .iter()
        .map(|(candidate, base)| StrongTest { candidate, base })
        .collect();
    let passed = engine.strong(&tests)?;
    let all = (1 << ROUNDS) - 1;
    Ok([passed & all == all, passed >> ROUNDS == all])
}

/// FIPS 186-5, appendix B.3.1, steps 4.1 and 4.2: uniform among 1 < b < w - 1. What is thrown away is no secret.
fn random_base(w: &[u64], random: &mut dyn Random) -> Result<Natural, KeyError> {
    let (two, top) = (from_word(2, w.len()), even_below(w));
    loop {
        let base = random.natural(w.len())?;
        if !less_than(&base, &two) && less_than(&base, &top) {
            return Ok(base);
        }
    }
}
