//! Primes and composites that tests know beforehand.

use num_bigint::BigUint;

use super::natural::Natural;
use super::natural::tests::natural;

/// As many words as its hexadecimal digits fill.
pub fn words_of(hexadecimal: &str) -> Natural {
    let number = BigUint::parse_bytes(hexadecimal.as_bytes(), 16).expect("hexadecimal digits");
    natural(&number, hexadecimal.len() / 16)
}

/// RFC 2409, section 6.2, and RFC 3526, sections 2 and 3: 2^k - 2^(k - 64) - 1 + 2^64 (2^(k - 130) pi + c), safe primes.
pub const PRIMES: [&str; 3] = [
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404ddef95\
     19b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7edee386bfb\
     5a899fa5ae9f24117c4b1fe649286651ece65381ffffffffffffffff",
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404ddef95\
     19b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7edee386bfb\
     5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f83655d23dca3\
     ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca237327ffffffffffffffff",
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404ddef95\
     19b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7edee386bfb\
     5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f83655d23dca3\
     ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3be39e772c180e8603\
     9b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa051015728e5a8aacaa68ffff\
     ffffffffffff",
];

/// All pass Fermat's test for base 2. Three are p (2 p - 1), strong pseudoprimes to many bases, with 2, 5 and 12 factors 2
/// in w - 1; the last is a Carmichael number of three factors, (6 m + 1) (12 m + 1) (18 m + 1).
pub const COMPOSITES: [&str; 4] = [
    "ab0f199be886b353e421daa0f15ab433a5175261de44d61e098d7e46fe271dd97fba4c94a93541ec793394681e1b33328d5b\
     b26719e6f2e24032d5035d4fe0d44ae36e5b8505670d61da1e2258a083b5c6a72b0f759c763b84e0d0008e6885ec3e2dd481\
     2ee90cce03e47a64eb0cb88cebab7257dfd6ab61540a8cedc35188fd",
    "ac17f663357d6b95a2a628b4797b7175b2db45d4f5ab8d12199709ea1937db2c15932219e702c672221f5a2c3fcf8d658a9c\
     2f3b82183407b48b01eeae761aa00df460418e89e5449ba48d549b717ec05a20b979280d31e8668747b749ab82d9989fdafe\
     a24d98384d61a35d95046796547f8d55291b0a83f2234e7bc01373a1",
    "ad6689ca97e2049401023776edc4c38eee037e539be2ec526139a90993ec489c09c1fc0808b92d149c29daf30d74f7ab8a6d\
     8caa1f778e572926096f1a4853f802346e0c69efb8a82537bd32bd62fd4a5c91444baa41e64fcd6286f6239f0bfeb0c004c0\
     efc84969f29588167d138fa036e2f5d8b5743bf948563c3ebf08f001",
    "fcb66bfa107f089a067102a96854bf0d558a66f431c43fb7b751ef7962634023ace172784a61a5a900ab116fddcd7c276c9c\
     d3824fc8ae1c6d725f92b7062708fbb2fad28a2ca2d20ea547e1b7a2a8bef72aef5668fece9eb97473a66aba6e5362b3908e\
     472a3ba85bb6cb1bb58c3e07717dcb56aa7c606f2e7473905d8db5b1",
];
