//! Fresh random numbers for each key: a virtual machine that is restored twice from one snapshot would make the same keys twice.

use aws_lc_sys::RAND_bytes_with_user_prediction_resistance;
use zeroize::Zeroizing;

use crate::key_error::KeyError;

const BYTES: usize = 32;

/// Mixes random numbers of the operating system, which a hypervisor can notify of a snapshot, into aws-lc's generator of this
/// thread. Only where it seeds itself by timing the CPU (`.cargo/config.toml`) does aws-lc ask for new ones at each use.
pub fn mix_in() -> Result<(), KeyError> {
    let mut fresh = Zeroizing::new([0_u8; BYTES]);
    if !read_system(&mut fresh) {
        return Err(KeyError::Library("read the system's random numbers"));
    }
    let mut unused = 0_u8;
    // SAFETY: it writes one byte to `unused`, and reads RAND_PRED_RESISTANCE_LEN (32) bytes of `fresh`.
    match unsafe { RAND_bytes_with_user_prediction_resistance(&raw mut unused, 1, fresh.as_ptr()) }
    {
        1 => Ok(()),
        _ => Err(KeyError::Library("give random numbers")),
    }
}

/// Reads up to 256 bytes, never fewer than asked for (getrandom(2), getentropy(3)).
fn read_system(bytes: &mut [u8; BYTES]) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: it writes at most as many bytes as there are.
    return unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), BYTES, 0) } == BYTES as isize;
    #[cfg(not(target_os = "linux"))]
    // SAFETY: as above.
    return unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), BYTES) } == 0;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::fd::FromRawFd;
    use std::sync::atomic::AtomicBool;

    use aws_lc_rs::rand;

    use crate::key::{KeyType, PrivateKey};
    use crate::rsa::Method;

    /// A number of aws-lc's generator, and then the public key of a new key.
    fn number_and_key() -> Vec<u8> {
        let mut bytes = vec![0; 16];
        rand::fill(&mut bytes).expect("random numbers");
        let key =
            PrivateKey::generate(KeyType::EcdsaP256, Method::Library, &AtomicBool::new(false));
        bytes.extend(key.and_then(|it| it.public_key_der()).expect("a key"));
        bytes
    }

    /// The pages that fork(2) wipes, by which aws-lc notices one: their address and first byte.
    fn wiped_pages() -> Vec<(*mut u8, u8)> {
        let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
        let mut start = 0;
        let mut pages = Vec::new();
        for line in maps.lines() {
            let Some(flags) = line.strip_prefix("VmFlags:") else {
                let head = line.split('-').next().unwrap_or_default();
                start = usize::from_str_radix(head, 16).unwrap_or(start);
                continue;
            };
            let has = |flag| flags.split_whitespace().any(|it| it == flag);
            // Droppable pages belong to the C library's getrandom.
            if has("wf") && has("wr") && !has("dp") {
                let page = start as *mut u8;
                // SAFETY: the page is mapped for reading.
                pages.push((page, unsafe { page.read_volatile() }));
            }
        }
        pages
    }

    /// Simulates a copy from a snapshot: fork(2), but without the mark by which aws-lc notices it.
    fn number_and_key_of_copy() -> Vec<u8> {
        let pages = wiped_pages();
        let mut ends = [0; 2];
        // SAFETY: it writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child has this thread alone, takes no lock of another, and ends below.
        let child = unsafe { libc::fork() };
        // SAFETY: both are ours; each process closes its two.
        let (mut reader, mut writer) =
            unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        if child == 0 {
            // SAFETY: it ends this process alone, should another thread have held a lock that is needed here.
            unsafe { libc::alarm(20) };
            for (page, byte) in pages {
                // SAFETY: the page is mapped for writing.
                unsafe { page.write_volatile(byte) };
            }
            let is_written = writer.write_all(&number_and_key()).is_ok();
            // SAFETY: it does not return.
            unsafe { libc::_exit(i32::from(!is_written)) };
        }
        assert!(child > 0);
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("the copy's answer");
        // SAFETY: the status is not asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        bytes
    }

    #[test]
    fn a_copy_of_the_process_of_which_aws_lc_is_not_notified_makes_other_keys() {
        number_and_key();
        let copy = number_and_key_of_copy();
        let own = number_and_key();
        assert_eq!(copy.len(), own.len());
        assert_eq!(copy[..16], own[..16], "it is a copy, with the same state");
        assert_ne!(copy[16..], own[16..]);
    }
}
