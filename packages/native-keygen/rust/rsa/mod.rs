//! RSA keys: two primes found by our own search, everything after them checked by aws-lc.
mod bignum;
mod conditions;
mod engine;
pub mod engines;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod key;
#[cfg(test)]
mod known_numbers;
#[cfg(target_arch = "x86_64")]
mod lanes_ifma;
#[cfg(target_arch = "x86_64")]
mod limbs_ifma;
mod miller_rabin;
mod natural;
mod portable;
mod prime_search;
mod random;
mod sieve;
mod standard;
#[cfg(test)]
mod statistics;

use std::sync::atomic::AtomicBool;

pub use engine::Engine;
pub use key::RsaKey;

use crate::key_error::KeyError;
use conditions::Parts;
use prime_search::prime_pair;
use random::System;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaSize {
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

impl RsaSize {
    /// 64-bit words of a prime, which has half the bits of the modulus.
    fn prime_words(self) -> usize {
        match self {
            Self::Rsa2048 => 1024 / 64,
            Self::Rsa3072 => 1536 / 64,
            Self::Rsa4096 => 2048 / 64,
        }
    }
}

/// A key that aws-lc has checked. `cancelled` is looked at between candidates.
pub fn generate(
    size: RsaSize,
    engine: &dyn Engine,
    cancelled: &AtomicBool,
) -> Result<RsaKey, KeyError> {
    RsaKey::from_parts(&random_parts(size, engine, cancelled)?)
}

fn random_parts(
    size: RsaSize,
    engine: &dyn Engine,
    cancelled: &AtomicBool,
) -> Result<Parts, KeyError> {
    loop {
        let primes = prime_pair(engine, size.prime_words(), &mut System, cancelled)?;
        if let Some(parts) = Parts::of(primes)? {
            return Ok(parts);
        }
    }
}
