//! RSA keys, made by aws-lc or of two primes that our own search finds; either way aws-lc checks the finished key.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
mod avx512;
mod bignum;
mod conditions;
mod engine;
mod engines;
#[cfg(target_arch = "x86_64")]
mod fma;
#[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
mod ifma;
mod key;
#[cfg(test)]
mod known_numbers;
#[cfg(target_arch = "x86_64")]
mod lanes_fma;
#[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
mod lanes_ifma;
#[cfg(target_arch = "x86_64")]
mod limbs_fma;
#[cfg(any(target_arch = "x86_64", feature = "emulated-simd"))]
mod limbs_ifma;
mod method;
mod miller_rabin;
mod natural;
mod portable;
mod prime_search;
mod random;
mod secrecy;
mod sieve;
mod stack;
mod standard;
#[cfg(test)]
mod statistics;

use std::sync::atomic::AtomicBool;

pub use key::RsaKey;
pub use method::Method;

use crate::key_error::KeyError;
use conditions::Parts;
use engine::Engine;
use prime_search::prime_pair;
use random::System;
use stack::with_wiped_stack;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaSize {
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

impl RsaSize {
    /// Bits of the modulus.
    fn bits(self) -> usize {
        2 * 64 * self.prime_words()
    }

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
pub fn generate(size: RsaSize, method: Method, cancelled: &AtomicBool) -> Result<RsaKey, KeyError> {
    with_wiped_stack(|| match (method, method.engine()) {
        (Method::Library, _) => RsaKey::of_library(size.bits(), cancelled),
        (_, Some(engine)) => RsaKey::from_parts(&random_parts(size, engine, cancelled)?),
        (_, None) => Err(KeyError::Input(format!(
            "this CPU cannot make RSA keys by {:?}",
            method.name()
        ))),
    })
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

/// The entry points of `constant-time/run`, which runs them under valgrind.
#[cfg(feature = "memcheck")]
pub mod memcheck {
    use super::*;

    /// The search for two primes and the parts of their key, with every random number marked as secret.
    pub fn search(size: RsaSize, method: Method) -> Result<(), KeyError> {
        let engine = method.engine().expect("a search that this CPU can run");
        random_parts(size, engine, &AtomicBool::new(false)).map(|_| ())
    }

    /// Branches on a secret, to expose a memcheck that reports nothing.
    pub fn leak() -> Result<bool, KeyError> {
        Ok(random::Random::natural(&mut System, 1)?[0] > 1 << 63)
    }
}
