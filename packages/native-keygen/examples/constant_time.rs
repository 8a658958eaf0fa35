//! The program that `constant-time/run` runs under valgrind: `search` or `simd`, or `leak` to prove that a leak is found.

use livery_native_keygen::rsa::{Method, RsaSize, memcheck};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("search") => memcheck::search(RsaSize::Rsa2048, Method::Search).expect("two primes"),
        Some("simd") => memcheck::search(RsaSize::Rsa2048, Method::Simd).expect("two primes"),
        Some("leak") => println!("{}", memcheck::leak().expect("a random number")),
        _ => panic!("usage: constant_time search|simd|leak"),
    }
}
