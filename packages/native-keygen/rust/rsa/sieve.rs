//! Which of the odd numbers from a secret start on have no small factor: they alone are worth an exponentiation.
//!
//! The start is secret, since one of the numbers will be a prime of the key. So the residues are computed without
//! division instructions and every mark passes over the whole bitmap: time and addresses are the same for every start.
//! The caller shows by its use of the answer (how many candidates it tries before a prime comes) how far the prime lies
//! from its start and which of the numbers between have small factors. aws-lc and OpenSSL reveal as much: it does not help
//! to find the prime, whose start stays unknown.

use std::sync::LazyLock;

use super::standard::EXPONENT;

/// Odd numbers in a window. One in 350 is a prime at 1,024 bits, so that one window in 300 has none.
pub const WINDOW: usize = 2048;
const WORDS: usize = WINDOW / 64;
/// Bit k stands for start + 2k.
pub type Bitmap = [u64; WORDS];

/// Primes up to here: a larger bound costs more time than the exponentiations that it saves.
const BOUND: usize = 1 << 17;
/// Four vectors of AVX-512, so that one does not wait for another.
const LANES: usize = 32;

/// Primes side by side, so that the compiler makes vectors of them (products of 32 by 32 bits). The unused last lanes
/// hold 1, which marks nothing.
struct Primes {
    prime: [u32; LANES],
    /// -1 / prime modulo 2^32.
    inverse: [u32; LANES],
    /// -1 / 2 times 2^(32 (digits + 1)) modulo prime: from `start / 2^(32 digits)` to the first multiple's number, by
    /// one reduction.
    scale: [u32; LANES],
}

pub struct Sieve {
    primes: Vec<Primes>,
}

static SIEVES: [LazyLock<Sieve>; 3] = [
    LazyLock::new(|| Sieve::new(1024 / 64)),
    LazyLock::new(|| Sieve::new(1536 / 64)),
    LazyLock::new(|| Sieve::new(2048 / 64)),
];

impl Sieve {
    /// The sieve for starts of `words` words: 16, 24 or 32.
    pub fn for_words(words: usize) -> &'static Self {
        &SIEVES[words / 8 - 2]
    }

    fn new(words: usize) -> Self {
        let primes = odd_primes_below(BOUND);
        let primes = primes
            .chunks(LANES)
            .map(|primes| Primes::new(primes, words));
        Self {
            primes: primes.collect(),
        }
    }

    /// The numbers start + 2k with k < WINDOW that no prime up to the bound divides and that are not 1 modulo the public
    /// exponent. `start` is odd and greater than the bound. Inlined, so that a caller compiled for wider vectors has this
    /// compiled for them too.
    #[inline(always)]
    pub fn survivors(&self, start: &[u64]) -> Bitmap {
        let mut composite = [0; WORDS];
        for primes in &self.primes {
            let first = primes.first_multiples(start);
            for (prime, first) in primes.prime.map(u64::from).into_iter().zip(first) {
                mark_multiples(&mut composite, first, prime);
                if prime == EXPONENT {
                    // start + 2k = 1 is half the prime, rounded up, after start + 2k = 0.
                    let one = first.wrapping_add(prime.div_ceil(2));
                    mark_multiples(&mut composite, one, prime);
                    mark_multiples(&mut composite, one.wrapping_sub(prime), prime);
                }
            }
        }
        composite.map(|word| !word)
    }
}

impl Primes {
    fn new(primes: &[u32], words: usize) -> Self {
        let prime = std::array::from_fn(|lane| primes.get(lane).copied().unwrap_or(1));
        let inverse = prime.map(|prime| {
            // Newton's iteration, as odd numbers are their own inverses modulo 8.
            let inverse = (0..4).fold(prime, |inverse, _| {
                inverse.wrapping_mul(2_u32.wrapping_sub(prime.wrapping_mul(inverse)))
            });
            inverse.wrapping_neg()
        });
        let scale = prime.map(|prime| {
            let minus_half = u64::from(prime / 2);
            let scale =
                (0..2 * words + 1).fold(minus_half, |scale, _| (scale << 32) % u64::from(prime));
            scale as u32
        });
        Self {
            prime,
            inverse,
            scale,
        }
    }

    /// The smallest k with start + 2k = 0 modulo p, for each prime p.
    #[inline(always)]
    fn first_multiples(&self, start: &[u64]) -> [u64; LANES] {
        let mut residues = [0_u64; LANES];
        for word in start {
            for digit in [word & 0xffff_ffff, word >> 32] {
                for (lane, residue) in residues.iter_mut().enumerate() {
                    *residue = self.reduced(lane, residue.wrapping_add(digit));
                }
            }
        }
        for (lane, residue) in residues.iter_mut().enumerate() {
            let (prime, scale) = (u64::from(self.prime[lane]), u64::from(self.scale[lane]));
            let first = self.reduced(lane, (*residue & 0xffff_ffff).wrapping_mul(scale));
            let above = u64::from(first >= prime);
            *residue = first.wrapping_sub(prime & above.wrapping_neg());
        }
        residues
    }

    /// value / 2^32 modulo the prime (P. Montgomery, 1985), at most a little above the prime: value / 2^32 + prime. No
    /// sum or product here reaches 2^64; checks of that would keep the compiler from making vectors.
    #[inline(always)]
    fn reduced(&self, lane: usize, value: u64) -> u64 {
        let (prime, inverse) = (u64::from(self.prime[lane]), u64::from(self.inverse[lane]));
        let multiple = (value & 0xffff_ffff).wrapping_mul(inverse) & 0xffff_ffff;
        value.wrapping_add(multiple.wrapping_mul(prime)) >> 32
    }
}

/// Sets the bits first, first + step, and so on. The number of marks depends on the step alone.
#[inline(always)]
fn mark_multiples(composite: &mut Bitmap, first: u64, step: u64) {
    if step == 1 {
        return;
    }
    let mut position = first;
    for _ in 0..(WINDOW as u64).div_ceil(step) {
        let bit = 1 << (position & 63);
        for (index, word) in composite.iter_mut().enumerate() {
            let here = u64::from(position >> 6 == index as u64);
            *word |= bit & here.wrapping_neg();
        }
        position = position.wrapping_add(step);
    }
}

fn odd_primes_below(bound: usize) -> Vec<u32> {
    let mut composite = vec![false; bound];
    let mut primes = Vec::new();
    for number in (3..bound).step_by(2) {
        if composite[number] {
            continue;
        }
        primes.push(number as u32);
        for multiple in (number * number..bound).step_by(2 * number) {
            composite[multiple] = true;
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    fn survives_trial_division(candidate: &BigUint, primes: &[u32]) -> bool {
        let residue = |prime: u32| (candidate % prime).try_into().unwrap_or(0_u32);
        residue(EXPONENT as u32) != 1 && primes.iter().all(|&prime| residue(prime) != 0)
    }

    fn assert_as_trial_division(start: &[u64], primes: &[u32]) {
        let survivors = Sieve::for_words(start.len()).survivors(start);
        for k in 0..WINDOW {
            let candidate = big(start) + 2 * k;
            let survives = survivors[k / 64] >> (k % 64) & 1 == 1;
            let wanted = survives_trial_division(&candidate, primes);
            assert_eq!(survives, wanted, "number {k} from {:x}", big(start));
        }
    }

    #[test]
    fn what_survives_is_what_trial_division_leaves() {
        let primes = odd_primes_below(BOUND);
        assert_eq!((primes.len(), primes.last()), (12_250, Some(&131_071)));
        let mut random = Seeded::new(2);
        for words in [16, 24, 32] {
            let mut start = random.natural(words);
            start[0] |= 1;
            assert_as_trial_division(&start, &primes);
        }
    }

    #[test]
    fn the_first_and_the_last_number_of_a_window_are_sieved() {
        let primes = odd_primes_below(BOUND);
        // A multiple of the largest prime, and 1 modulo the exponent.
        for (prime, residue) in [(131_071, 131_071_u64), (EXPONENT, 1)] {
            let number = (BigUint::from(prime) << 1000_u32) + residue;
            for k in [0, 1, WINDOW - 1, WINDOW] {
                let start = natural(&(&number - 2 * k), 16);
                assert_as_trial_division(&start, &primes);
            }
        }
    }
}
