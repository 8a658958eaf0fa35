//! Two primes for one key: FIPS 186-5, appendix A.1.3, except for the choice of candidates. There each is drawn at random;
//! here they are the odd numbers that follow a random start, so that one pass of the sieve serves them all. That makes a
//! prime likelier the longer the gap before it, which costs less than one bit of its entropy (Brandt and Damgård, see
//! `miller_rabin`). The two primes have separate starts, and no start is used again.
//!
//! Visible in time: how many candidates were tried until a prime came, and where the survivors of the sieve lie between.

use std::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroizing;

use super::engine::Engine;
use super::miller_rabin::are_primes;
use super::natural::{Natural, plus};
use super::random::Random;
use super::secrecy::public;
use super::sieve::{Bitmap, Sieve, WINDOW};
use super::standard::LEAST_HIGHEST_WORD;
use crate::key_error::KeyError;

/// Two primes of `words` words, above 2^(bits - 1) sqrt 2, neither of them 1 modulo the public exponent. The same random
/// numbers make the same primes, whatever the engine.
pub fn prime_pair(
    engine: &dyn Engine,
    words: usize,
    random: &mut dyn Random,
    cancelled: &AtomicBool,
) -> Result<[Natural; 2], KeyError> {
    let mut found = [None, None];
    loop {
        found = match screen(engine, words, random, cancelled, found)? {
            [Some(p), Some(q)] => match are_primes(engine, [&p, &q], random)? {
                [true, true] => return Ok([p, q]),
                [is_first, is_second] => [is_first.then_some(p), is_second.then_some(q)],
            },
            unfinished => unfinished,
        };
    }
}

/// One window for each prime that is not found yet: the first number in it that passes Fermat's test, if one does. The
/// windows share the engine's width until one of them has its number.
fn screen(
    engine: &dyn Engine,
    words: usize,
    random: &mut dyn Random,
    cancelled: &AtomicBool,
    mut found: [Option<Natural>; 2],
) -> Result<[Option<Natural>; 2], KeyError> {
    let mut windows = Vec::new();
    for found in found.iter_mut().filter(|found| found.is_none()) {
        windows.push((found, Window::random(engine, words, random)?));
    }
    loop {
        windows.retain(|(found, window)| found.is_none() && !window.is_empty());
        if windows.is_empty() {
            return Ok(found);
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(KeyError::Cancelled);
        }
        let sharing = windows.len().min(engine.width());
        let share = engine.width() / sharing;
        let mut batch = Vec::with_capacity(engine.width());
        for (_, window) in &mut windows[..sharing] {
            batch.push(window.take(share).collect::<Vec<_>>());
        }
        let candidates: Vec<&[u64]> = batch.iter().flatten().map(|c| c.as_slice()).collect();
        let mut passed = public(engine.fermat(&candidates)?);
        for ((found, _), candidates) in windows.iter_mut().zip(batch) {
            for candidate in candidates {
                if passed & 1 == 1 && found.is_none() {
                    **found = Some(candidate);
                }
                passed >>= 1;
            }
        }
    }
}

/// The survivors of one window, in order.
struct Window {
    start: Natural,
    survivors: Zeroizing<Bitmap>,
}

impl Window {
    fn random(
        engine: &dyn Engine,
        words: usize,
        random: &mut dyn Random,
    ) -> Result<Self, KeyError> {
        let start = random_start(words, random)?;
        let survivors = public(engine.survivors(Sieve::for_words(words), &start));
        let survivors = Zeroizing::new(survivors);
        Ok(Self { start, survivors })
    }

    fn is_empty(&self) -> bool {
        self.survivors.iter().all(|&word| word == 0)
    }
}

impl Iterator for Window {
    type Item = Natural;

    fn next(&mut self) -> Option<Natural> {
        let (index, word) = self
            .survivors
            .iter_mut()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        let k = 64 * index as u64 + u64::from(word.trailing_zeros());
        *word &= *word - 1;
        Some(plus(&self.start, 2 * k))
    }
}

/// Odd, uniform between the bound of step 4.4 and 2^bits: numbers below it are thrown away, as is one in 2^900 whose window
/// would reach 2^bits.
fn random_start(words: usize, random: &mut dyn Random) -> Result<Natural, KeyError> {
    loop {
        let mut start = random.natural(words)?;
        start[0] |= 1;
        start[words - 1] |= 1 << 63;
        let is_last = start[1..]
            .iter()
            .fold(start[0] > u64::MAX - 2 * WINDOW as u64, |is_last, &word| {
                is_last & (word == u64::MAX)
            });
        if public((start[words - 1] >= LEAST_HIGHEST_WORD) & !is_last) {
            return Ok(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::rsa::engine::StrongTest;
    use crate::rsa::engines::{available, portable};
    use crate::rsa::natural::tests::big;
    use crate::rsa::random::tests::Seeded;

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn every_engine_finds_the_same_primes_with_the_same_random_numbers() {
        for (words, seeds) in [(16, 0..4), (24, 0..1)] {
            for seed in seeds {
                let mut pairs = available().into_iter().map(|engine| {
                    let mut random = Seeded::new(seed);
                    let pair = prime_pair(engine, words, &mut random, &NEVER).expect("two primes");
                    (pair, random.next())
                });
                let first = pairs.next().expect("an engine");
                assert_ne!(first.0[0], first.0[1]);
                assert!(pairs.all(|pair| pair == first), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_window_without_a_prime_is_followed_by_another() {
        /// Takes all of the first two windows for composite.
        struct Refusing(&'static dyn Engine, AtomicUsize);
        impl Engine for Refusing {
            fn width(&self) -> usize {
                self.0.width()
            }
            fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap {
                let windows = self.1.fetch_add(1, Ordering::Relaxed);
                let survivors = self.0.survivors(sieve, start);
                if windows < 2 {
                    [0; WINDOW / 64]
                } else {
                    survivors
                }
            }
            fn fermat(&self, candidates: &[&[u64]]) -> Result<u8, KeyError> {
                self.0.fermat(candidates)
            }
            fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
                self.0.strong(tests)
            }
        }
        let refusing = Refusing(portable(), AtomicUsize::new(0));
        let mut random = Seeded::new(8);
        let second = prime_pair(&refusing, 16, &mut random, &NEVER).expect("two primes");
        let mut random = Seeded::new(8);
        for _ in 0..2 {
            random_start(16, &mut random).expect("a start");
        }
        let wanted = prime_pair(portable(), 16, &mut random, &NEVER).expect("two primes");
        assert_eq!(second, wanted);
    }

    /// Sets the flag at its third batch.
    struct Cancelling<'a> {
        engine: &'static dyn Engine,
        cancelled: &'a AtomicBool,
        batches: AtomicUsize,
    }

    impl Engine for Cancelling<'_> {
        fn width(&self) -> usize {
            self.engine.width()
        }
        fn survivors(&self, sieve: &Sieve, start: &[u64]) -> Bitmap {
            self.engine.survivors(sieve, start)
        }
        fn fermat(&self, _: &[&[u64]]) -> Result<u8, KeyError> {
            let batches = 1 + self.batches.fetch_add(1, Ordering::Relaxed);
            self.cancelled.store(batches == 3, Ordering::Relaxed);
            Ok(0)
        }
        fn strong(&self, tests: &[StrongTest]) -> Result<u8, KeyError> {
            self.engine.strong(tests)
        }
    }

    #[test]
    fn a_search_that_is_cancelled_stops_after_the_batch() {
        for engine in available() {
            let cancelled = AtomicBool::new(false);
            let batches = AtomicUsize::new(0);
            let cancelling = Cancelling {
                engine,
                cancelled: &cancelled,
                batches,
            };
            let answer = prime_pair(&cancelling, 32, &mut Seeded::new(9), &cancelled);
            assert_eq!(answer, Err(KeyError::Cancelled));
            assert_eq!(cancelling.batches.into_inner(), 3);
        }
    }

    #[test]
    fn starts_are_odd_and_not_below_the_bound() {
        let mut random = Seeded::new(10);
        for _ in 0..1000 {
            let start = random_start(16, &mut random).expect("a start");
            // 2^1023 sqrt 2 = sqrt(2^2047).
            assert!(big(&start).pow(2) >> 2047_u32 >= 1_u32.into());
            assert_eq!(start[0] & 1, 1);
        }
    }
}
