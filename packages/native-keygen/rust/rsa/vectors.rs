//! What `lanes_fma` asks of a CPU: vector registers of 64-bit lanes, each with an integer or a floating-point number (IEEE 754,
//! binary64), and fused multiplication. No operation branches on a value, and none has an address that depends on one.

use zeroize::Zeroize;

/// A value of such a type proves that the CPU has the instructions.
pub trait Vectors: Copy + Send + Sync + 'static {
    const LANES: usize;
    /// Two factors of `halves` have as many bits.
    const LIMB_BITS: usize;
    /// `halves` adds these to what it returns.
    const LOW_BIAS: i64;
    const HIGH_BIAS: i64;

    type Integers: Copy + Zeroize;
    /// Integers below 2^52 as floating-point numbers, which have them exactly.
    type Reals: Copy + Zeroize;

    /// Calls `work`, compiled for the CPU with all that is inlined in it.
    fn compiled<T>(self, work: impl FnOnce() -> T) -> T;

    fn all(self, value: i64) -> Self::Integers;
    fn lanes(self, value: impl Fn(usize) -> i64) -> Self::Integers;
    fn sum(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn less(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn and(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// Integers from 0 to 2^64, shifted right by `LIMB_BITS`.
    fn above_limb(self, x: Self::Integers) -> Self::Integers;
    /// Integers between 0 and 2^52.
    fn real(self, x: Self::Integers) -> Self::Reals;

    /// (low + `LOW_BIAS`, high + `HIGH_BIAS`), where a b = low + 2^`LIMB_BITS` high, for limbs a and b. The first fused
    /// multiplication rounds a b to a multiple of 2^`LIMB_BITS`, the second computes what is missing: each has one rounding,
    /// and the second has none to do (T. Dekker, A floating-point technique for extending the available precision, 1971). The
    /// halves are read out of the bits of sums with large numbers: bits of a number between 2^52 and 2^53 count ones, of one
    /// between 2^(52 + n) and 2^(53 + n) they count 2^n. No number here is subnormal, so that time does not depend on them.
    fn halves(self, a: Self::Reals, b: Self::Reals) -> (Self::Integers, Self::Integers);

    /// All bits where the lanes are equal, none where they are not.
    fn is_same(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// One bit for each lane of a mask.
    fn bits(self, mask: Self::Integers) -> u8;
}
