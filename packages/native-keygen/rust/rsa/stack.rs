//! Wipes secrets from the stack: the remains of spilled registers, of arrays, and of copies that only the compiler knows
//! of.

use zeroize::Zeroize;

/// More than the search for primes uses: the table of powers of 2,048-bit numbers takes 40 KB, and there are copies of parts.
const DEPTH: usize = 256 * 1024;

/// Calls `work` and overwrites the stack that it used, also when it panics.
pub fn with_wiped_stack<T>(work: impl FnOnce() -> T) -> T {
    let _wiped = WipedOnDrop;
    called(work)
}

struct WipedOnDrop;

impl Drop for WipedOnDrop {
    fn drop(&mut self) {
        wipe();
    }
}

/// A separate frame below the caller's.
#[inline(never)]
fn called<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(never)]
fn wipe() {
    let mut stack = [0_u64; DEPTH / 8];
    stack.zeroize();
    std::hint::black_box(&stack);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::HashSet;
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::rsa::engines::available;
    use crate::rsa::natural::{Natural, inverse_modulo_2_64, plus, shifted_right, times};
    use crate::rsa::prime_search::prime_pair;
    use crate::rsa::random::tests::Seeded;

    /// The words below the frame of the caller, as far as `wipe` reaches.
    #[inline(never)]
    fn stack_below(frame: *const u64) -> Vec<u64> {
        let mut words = vec![0_u64; DEPTH / 8];
        let local = libc::iovec {
            iov_base: words.as_mut_ptr().cast(),
            iov_len: DEPTH,
        };
        let remote = libc::iovec {
            iov_base: frame.wrapping_byte_sub(DEPTH).cast_mut().cast(),
            iov_len: DEPTH,
        };
        // SAFETY: the kernel reads this process's memory, which the stack of this thread is, and fills `words`.
        let read = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        assert_eq!(read, DEPTH as isize);
        words
    }

    /// The traces of a prime, and of the numbers that `lanes_fma` derives from it.
    fn traces(prime: &Natural) -> HashSet<u64> {
        let above = [51, 52].map(|limb_bits| {
            let factor = inverse_modulo_2_64(prime[0]).wrapping_neg() & ((1 << limb_bits) - 1);
            let mut above = shifted_right(&plus(&times(prime, &[factor]), 1), limb_bits);
            above.truncate(prime.len());
            above
        });
        above.iter().chain([prime]).flat_map(words_of).collect()
    }

    /// Words of 64 bits, limbs of 52 and of 51, and limbs as floating-point numbers.
    fn words_of(number: &Natural) -> Vec<u64> {
        let at = |bit: usize| {
            let word = |index: usize| u128::from(number.get(index).copied().unwrap_or(0));
            ((word(bit / 64) | word(bit / 64 + 1) << 64) >> (bit % 64)) as u64
        };
        let limbs = |bits: usize| {
            (0..64 * number.len() / bits).map(move |limb| at(bits * limb) & ((1 << bits) - 1))
        };
        let limbs: Vec<u64> = limbs(51).chain(limbs(52)).collect();
        let reals = limbs.iter().map(|&limb| (limb as f64).to_bits());
        number.iter().chain(&limbs).copied().chain(reals).collect()
    }

    /// How many words of the two primes are found on the stack after the search for them.
    fn left_by(search: impl FnOnce() -> [Natural; 2]) -> usize {
        let frame = 0_u64;
        let primes = search();
        let stack = stack_below(&raw const frame);
        let traces: HashSet<u64> = primes.iter().flat_map(traces).collect();
        stack.iter().filter(|word| traces.contains(word)).count()
    }

    /// `with_wiped_stack` of a search that panics once it has the primes.
    fn caught(search: impl FnOnce() -> [Natural; 2]) -> [Natural; 2] {
        let mut primes = None;
        let panics = || {
            with_wiped_stack(|| {
                primes = Some(search());
                panic::resume_unwind(Box::new("a fault of the test"));
            })
        };
        panic::catch_unwind(AssertUnwindSafe(panics)).expect_err("a panic");
        primes.expect("primes")
    }

    #[test]
    fn no_word_of_a_prime_stays_on_the_stack() {
        let thread = thread::Builder::new().stack_size(4 << 20).spawn(|| {
            for engine in available() {
                let never = AtomicBool::new(false);
                let search =
                    || prime_pair(engine, 16, &mut Seeded::new(13), &never).expect("primes");
                let (left, wiped) = (left_by(search), left_by(|| with_wiped_stack(search)));
                println!(
                    "width {}: {left} words, {wiped} after wiping",
                    engine.width()
                );
                assert!(left > 0, "nothing to wipe: this test says nothing");
                assert_eq!(wiped, 0);
                assert_eq!(left_by(|| caught(search)), 0, "after a panic");
            }
        });
        thread.expect("a thread").join().expect("no panic");
    }
}
