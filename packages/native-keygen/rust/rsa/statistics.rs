//! Many keys: 500 with each engine that tests several candidates at once, 50 with the other; with LIVERY_SLOW=1 twenty times as many.

use std::collections::HashSet;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

use aws_lc_sys::{BN_CTX_free, BN_CTX_new, BN_primality_test, BN_prime_checks_for_generation};

use super::bignum::Bignum;
use super::engine::Engine;
use super::engines::available;
use super::standard::LEAST_HIGHEST_WORD;
use super::{RsaKey, RsaSize, random_parts};

/// aws-lc's own test, which shares no code with ours.
fn is_prime(natural: &[u64]) -> bool {
    let number = Bignum::from_natural(natural).expect("a number");
    let mut verdict = 0;
    // SAFETY: the number is valid; the scratch memory is made and freed here; no callback.
    let status = unsafe {
        let scratch = BN_CTX_new();
        let checks = BN_prime_checks_for_generation;
        let status = BN_primality_test(
            &raw mut verdict,
            number.as_ptr(),
            checks,
            scratch,
            1,
            null_mut(),
        );
        BN_CTX_free(scratch);
        status
    };
    assert_eq!(status, 1);
    verdict == 1
}

/// Keys on two threads; what is kept of each are its primes.
fn primes_of_keys(engine: &dyn Engine, keys: usize) -> Vec<Vec<u64>> {
    let primes = Mutex::new(Vec::new());
    let never = AtomicBool::new(false);
    let work = || {
        for _ in 0..keys / 2 {
            let parts = random_parts(RsaSize::Rsa2048, engine, &never).expect("a key");
            RsaKey::from_parts(&parts).expect("a key that aws-lc accepts");
            assert!(is_prime(&parts.p) && is_prime(&parts.q));
            assert_eq!(parts.n.last().map(|word| word >> 63), Some(1), "2,048 bits");
            let mut primes = primes.lock().unwrap_or_else(PoisonError::into_inner);
            primes.extend([parts.p.to_vec(), parts.q.to_vec()]);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    primes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Pearson's sum for numbers that should be uniform among `classes`.
fn chi_square(classes: usize, numbers: impl Iterator<Item = usize>) -> f64 {
    let mut counts = vec![0_u32; classes];
    for number in numbers {
        counts[number] += 1;
    }
    let expected = f64::from(counts.iter().sum::<u32>()) / classes as f64;
    let squares = counts
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected);
    squares.sum()
}

#[test]
fn many_keys_repeat_no_prime_and_prefer_no_bits() {
    let slow = if std::env::var_os("LIVERY_SLOW").is_some() {
        20
    } else {
        1
    };
    for engine in available() {
        let keys = slow * if engine.width() > 1 { 500 } else { 50 };
        let primes = primes_of_keys(engine, keys);
        assert_eq!(primes.len(), 2 * keys);
        assert_eq!(primes.iter().collect::<HashSet<_>>().len(), 2 * keys);
        // 15 and 7 degrees of freedom: chance exceeds these once in a million runs and less.
        let range = (u64::MAX - LEAST_HIGHEST_WORD) as f64;
        let sixteenth = |prime: &Vec<u64>| {
            let position = (prime[15] - LEAST_HIGHEST_WORD) as f64 / range;
            ((position * 16.0) as usize).min(15)
        };
        let high = chi_square(16, primes.iter().map(sixteenth));
        let low = chi_square(8, primes.iter().map(|prime| (prime[0] >> 1 & 7) as usize));
        println!(
            "width {}, {keys} keys: chi-square {high:.1} (15), {low:.1} (7)",
            engine.width()
        );
        assert!(
            high < 57.0,
            "width {}: highest bits, {high}",
            engine.width()
        );
        assert!(low < 43.0, "width {}: lowest bits, {low}", engine.width());
    }
}
