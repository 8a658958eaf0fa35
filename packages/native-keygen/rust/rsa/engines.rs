//! The engines that this CPU can run.

use super::engine::Engine;
#[cfg(target_arch = "x86_64")]
use super::fma::Fma;
#[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
use super::ifma::Ifma;
use super::portable::Portable;

pub fn portable() -> &'static dyn Engine {
    &Portable
}

/// The fastest that works on several candidates at once. Absent if the CPU has neither AVX-512 IFMA nor AVX2 with FMA.
pub fn simd() -> Option<&'static dyn Engine> {
    in_lanes().next()
}

/// All that this CPU can run, the fastest first.
#[cfg(test)]
pub fn available() -> Vec<&'static dyn Engine> {
    in_lanes().chain([portable()]).collect()
}

fn in_lanes() -> impl Iterator<Item = &'static dyn Engine> {
    #[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
    let ifma = Ifma::detected().map(|engine| engine as &dyn Engine);
    #[cfg(not(any(target_arch = "x86_64", feature = "emulated-simd")))]
    let ifma = None;
    #[cfg(target_arch = "x86_64")]
    let fma = Fma::detected().map(|engine| engine as &dyn Engine);
    #[cfg(not(target_arch = "x86_64"))]
    let fma = None;
    ifma.into_iter().chain(fma)
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::engine::StrongTest;
    use crate::rsa::known_numbers::{COMPOSITES, PRIMES, words_of};
    use crate::rsa::natural::Natural;
    use crate::rsa::natural::minus;
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    fn passes_fermat(w: &BigUint) -> bool {
        BigUint::from(2_u32).modpow(&(w - 1_u32), w) == BigUint::from(1_u32)
    }

    /// As the textbook has it: base^m, and its squares.
    fn passes_strong(w: &BigUint, base: &BigUint) -> bool {
        let minus_one = w - 1_u32;
        let twos = minus_one.trailing_zeros().expect("w > 1");
        let power = base.modpow(&(&minus_one >> twos), w);
        power == BigUint::from(1_u32)
            || (0..twos)
                .any(|square| power.modpow(&(BigUint::from(1_u32) << square), w) == minus_one)
    }

    fn random_base(random: &mut Seeded, w: &[u64]) -> Natural {
        natural(
            &(big(&random.natural(w.len())) % (big(w) - 3_u32) + 2_u32),
            w.len(),
        )
    }

    /// Verdicts of every engine for `bases` bases at a time, compared with the textbook's: how many were yes.
    fn strong_verdicts(w: &[u64], bases: &[Natural]) -> u32 {
        let wanted = bases.iter().enumerate().fold(0, |bits, (index, base)| {
            bits | u8::from(passes_strong(&big(w), &big(base))) << index
        });
        let tests: Vec<_> = bases
            .iter()
            .map(|base| StrongTest { candidate: w, base })
            .collect();
        for engine in available() {
            assert_eq!(
                engine.strong(&tests),
                Ok(wanted),
                "{}: {:x}",
                engine.width(),
                big(w)
            );
        }
        wanted.count_ones()
    }

    #[test]
    fn known_primes_pass_every_test_of_every_engine() {
        let mut random = Seeded::new(5);
        for w in PRIMES.map(words_of) {
            let mut bases: Vec<_> = (0..6).map(|_| random_base(&mut random, &w)).collect();
            bases.push(natural(&BigUint::from(2_u32), w.len()));
            bases.push(minus(&w, &natural(&BigUint::from(2_u32), w.len())).0);
            assert_eq!(strong_verdicts(&w, &bases), 8);
            for engine in available() {
                assert_eq!(engine.fermat(&[&w]), Ok(1), "{}", engine.width());
            }
        }
    }

    /// Composites that pass Fermat's test for most bases, and strong tests for some.
    #[test]
    fn verdicts_on_pseudoprimes_and_carmichael_numbers_are_the_textbook_s() {
        let mut random = Seeded::new(6);
        let mut liars = 0;
        for w in COMPOSITES.map(words_of) {
            assert!(passes_fermat(&big(&w)), "a pseudoprime");
            for engine in available() {
                assert_eq!(engine.fermat(&[&w, &w]).map(|bits| bits & 1), Ok(1));
            }
            for _ in 0..4 {
                let bases: Vec<_> = (0..8).map(|_| random_base(&mut random, &w)).collect();
                liars += strong_verdicts(&w, &bases);
            }
        }
        assert!(
            liars > 0,
            "none of the bases was a liar: the test says little"
        );
        assert!(liars < 32 * COMPOSITES.len() as u32 / 2);
    }

    #[test]
    fn verdicts_on_random_numbers_agree_in_every_lane() {
        let mut random = Seeded::new(7);
        let primes = PRIMES.map(words_of);
        for words in [16, 24, 32] {
            for round in 0..4 {
                let mut candidates: Vec<_> = (0..8)
                    .map(|_| {
                        let mut w = random.natural(words);
                        w[0] |= 1;
                        w[words - 1] |= 1 << 63;
                        w
                    })
                    .collect();
                let prime = primes
                    .iter()
                    .find(|prime| prime.len() == words)
                    .expect("a prime");
                candidates[2 * round] = prime.clone();
                let wanted = candidates.iter().enumerate().fold(0, |bits, (index, w)| {
                    bits | u8::from(passes_fermat(&big(w))) << index
                });
                let candidates: Vec<&[u64]> = candidates.iter().map(|w| w.as_slice()).collect();
                for engine in available() {
                    assert_eq!(engine.fermat(&candidates), Ok(wanted), "{}", engine.width());
                    assert_eq!(engine.fermat(&candidates[..2]), Ok(wanted & 3));
                }
            }
        }
    }
}
