//! The three ways to make an RSA key: `docs/understand/rsa-keys.md` compares them.

use std::str::FromStr;

use super::engine::Engine;
use super::engines;
use crate::key_error::KeyError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// aws-lc's own generator, from the random numbers to the finished key.
    Library,
    /// Our search for primes, with aws-lc's exponentiation.
    Search,
    /// The same search with several exponentiations at once, for CPUs with AVX-512 IFMA or AVX2.
    Simd,
}

impl Method {
    pub const ALL: [Self; 3] = [Self::Library, Self::Search, Self::Simd];

    pub fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Search => "search",
            Self::Simd => "simd",
        }
    }

    /// Whether this CPU can run it.
    pub fn is_available(self) -> bool {
        self == Self::Library || self.engine().is_some()
    }

    /// The engine that tests the candidates of a search, if there is one and this CPU can run it.
    pub(super) fn engine(self) -> Option<&'static dyn Engine> {
        match self {
            Self::Library => None,
            Self::Search => Some(engines::portable()),
            Self::Simd => engines::simd(),
        }
    }
}

impl FromStr for Method {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        let method = Self::ALL.into_iter().find(|method| method.name() == name);
        method.ok_or_else(|| KeyError::Input(format!("{name:?} is no way to make RSA keys")))
    }
}
