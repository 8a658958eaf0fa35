//! Which values are secret, for valgrind's memcheck: with the feature `memcheck` it reports every branch and every address
//! that depends on one (A. Langley, ctgrind, 2010). Without the feature nothing here does anything.

/// Marks `bytes` as secret, and with them everything computed from them.
#[inline]
pub fn hide(bytes: &mut [u8]) {
    #[cfg(feature = "memcheck")]
    request(MAKE_MEM_UNDEFINED, bytes.as_mut_ptr(), bytes.len());
    #[cfg(not(feature = "memcheck"))]
    let _ = bytes;
}

/// The same value, which an observer may know: `docs/understand/rsa-keys.md` lists each of these and says why.
#[inline]
#[cfg_attr(not(feature = "memcheck"), expect(unused_mut))]
pub fn public<T: Copy>(mut value: T) -> T {
    #[cfg(feature = "memcheck")]
    {
        request(MAKE_MEM_DEFINED, (&raw mut value).cast(), size_of::<T>());
        value = std::hint::black_box(value);
    }
    value
}

/// Marks the words of `number` as secret, or public.
///
/// # Safety
///
/// The number is valid.
#[cfg(feature = "memcheck")]
pub unsafe fn mark(number: *const aws_lc_sys::BIGNUM, is_secret: bool) {
    let code = if is_secret {
        MAKE_MEM_UNDEFINED
    } else {
        MAKE_MEM_DEFINED
    };
    // SAFETY: the caller's promise; only the place of the words is read.
    let (words, width) = unsafe { ((*number).d, (*number).width) };
    request(code, words.cast(), 8 * width as usize);
}

/// Client requests of memcheck, <https://valgrind.org/docs/manual/mc-manual.html#mc-manual.clientreqs>.
#[cfg(feature = "memcheck")]
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
#[cfg(feature = "memcheck")]
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Valgrind looks for these instructions; on a CPU they do nothing.
#[cfg(feature = "memcheck")]
fn request(code: usize, start: *mut u8, length: usize) {
    let arguments = [code, start as usize, length, 0, 0, 0];
    // SAFETY: the instructions rotate rdi by 128 bits, swap rbx with itself, and leave memory as it is.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_usize => _,
            options(nostack),
        );
    }
}
