//! Two lanes in the registers of NEON.

use core::arch::aarch64::{
    uint64x2_t, vaddq_u64, vandq_u64, vceqq_u64, vcvtq_f64_u64, vdupq_n_f64, vdupq_n_u64,
    vfmaq_f64, vgetq_lane_u64, vld1q_u64, vreinterpretq_f64_u64, vreinterpretq_u64_f64,
    vshrq_n_u64, vsubq_f64, vsubq_u64,
};
use std::arch::is_aarch64_feature_detected;

use super::vectors::Vectors;

/// Proof that the CPU has NEON: `detected` alone makes one.
#[derive(Clone, Copy)]
pub struct Neon(());

impl Neon {
    pub fn detected() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

const LOW: f64 = (3_u64 << 51) as f64;
const HIGH: f64 = (1_u128 << 103) as f64;

/// Products are rounded to the nearest multiple of 2^51, as with AVX2: `vfmaq_f64` rounds once, as FPCR says, which Rust
/// programs leave at its default.
impl Vectors for Neon {
    const LANES: usize = 2;
    const LIMB_BITS: usize = 51;
    const LOW_BIAS: i64 = LOW.to_bits() as i64;
    const HIGH_BIAS: i64 = HIGH.to_bits() as i64;

    type Integers = uint64x2_t;
    /// The bits of floating-point numbers: zeroize can wipe this type.
    type Reals = uint64x2_t;

    #[inline(always)]
    fn compiled<T>(self, work: impl FnOnce() -> T) -> T {
        #[inline(never)]
        #[target_feature(enable = "neon")]
        fn compiled<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { compiled(work) }
    }

    #[inline(always)]
    fn all(self, value: i64) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vdupq_n_u64(value as u64) }
    }

    #[inline(always)]
    fn lanes(self, value: impl Fn(usize) -> i64) -> uint64x2_t {
        let lanes = [value(0) as u64, value(1) as u64];
        // SAFETY: `self` proves that the CPU has NEON; two words are read.
        unsafe { vld1q_u64(lanes.as_ptr()) }
    }

    #[inline(always)]
    fn sum(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vaddq_u64(a, b) }
    }

    #[inline(always)]
    fn less(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vsubq_u64(a, b) }
    }

    #[inline(always)]
    fn and(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vandq_u64(a, b) }
    }

    #[inline(always)]
    fn above_limb(self, x: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vshrq_n_u64::<{ Self::LIMB_BITS as i32 }>(x) }
    }

    #[inline(always)]
    fn real(self, x: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vreinterpretq_u64_f64(vcvtq_f64_u64(x)) }
    }

    #[inline(always)]
    fn halves(self, a: uint64x2_t, b: uint64x2_t) -> (uint64x2_t, uint64x2_t) {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe {
            let (a, b) = (vreinterpretq_f64_u64(a), vreinterpretq_f64_u64(b));
            let rounded = vfmaq_f64(vdupq_n_f64(HIGH), a, b);
            let missing = vsubq_f64(vdupq_n_f64(HIGH + LOW), rounded);
            let low = vfmaq_f64(missing, a, b);
            (vreinterpretq_u64_f64(low), vreinterpretq_u64_f64(rounded))
        }
    }

    #[inline(always)]
    fn is_same(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        // SAFETY: `self` proves that the CPU has NEON.
        unsafe { vceqq_u64(a, b) }
    }

    #[inline(always)]
    fn bits(self, mask: uint64x2_t) -> u8 {
        // SAFETY: `self` proves that the CPU has NEON.
        let (first, second) = unsafe { (vgetq_lane_u64::<0>(mask), vgetq_lane_u64::<1>(mask)) };
        (first & 1 | second & 2) as u8
    }
}
