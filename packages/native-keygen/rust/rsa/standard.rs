//! The numbers that FIPS 186-5 sets for RSA keys.

/// The public exponent of every key: 2^16 + 1, the least prime that appendix A.1.1, criterion 1, allows.
pub const EXPONENT: u64 = 65_537;

/// The highest word of 2^(bits - 1) sqrt 2, rounded up: no prime is below it (appendix A.1.3, steps 4.4 and 5.4).
pub const LEAST_HIGHEST_WORD: u64 = 0xb504_f333_f9de_6485;

/// Rounds of Miller-Rabin for each prime, with random bases: as many as aws-lc and Go have for primes of 1,024 bits, and one
/// more than they have for longer ones (appendix B.3, table B.1).
pub const ROUNDS: usize = 5;
