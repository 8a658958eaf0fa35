//! Memory for the key that seals all others: not on swap, not in a core file, not in a forked child, wiped at its end.

use std::ptr::{self, NonNull};

use zeroize::Zeroize;

/// The processes that can read a page, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nobody: memfd_secret(2) takes it out of the kernel's own map, and so out of `/proc/PID/mem` for root, too.
    Secret,
    /// It stays in memory: mlock(2).
    Locked,
    /// It can be swapped out: RLIMIT_MEMLOCK leaves no room for a page.
    Unlocked,
}

pub struct LockedPage {
    start: NonNull<u8>,
    length: usize,
    protection: Protection,
}

impl LockedPage {
    /// A page-aligned mapping of at least `length` zero bytes. `None` if there is no memory.
    pub fn new(length: usize) -> Option<Self> {
        // SAFETY: it takes a number and no pointer.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let length = length.next_multiple_of(page);
        map_secret(length)
            .map(|start| (start, Protection::Secret))
            .or_else(|| map_locked(length))
            .map(|(start, protection)| Self {
                start,
                length,
                protection,
            })
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn protection(&self) -> Protection {
        self.protection
    }
}

impl Drop for LockedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is this page's alone and is as long as `length`.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length).zeroize();
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}

/// Refused by kernels before 5.14, by those that were built or started without it, and by some seccomp profiles.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn map_secret(length: usize) -> Option<NonNull<u8>> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// Not in every C library's headers.
    const MEMFD_SECRET: libc::c_long = 447;
    // SAFETY: it takes flags and no pointer; what it returns is a new descriptor of ours.
    let file = unsafe {
        let fd = i32::try_from(libc::syscall(MEMFD_SECRET, libc::O_CLOEXEC)).ok()?;
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?
    };
    let size = libc::off_t::try_from(length).ok()?;
    // SAFETY: any descriptor and length are allowed.
    if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
        return None;
    }
    let start = map(length, libc::MAP_SHARED, file.as_raw_fd())?;
    // SAFETY: the range was just mapped.
    unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_DONTFORK) };
    Some(start)
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn map_secret(_length: usize) -> Option<NonNull<u8>> {
    None
}

fn map_locked(length: usize) -> Option<(NonNull<u8>, Protection)> {
    let start = map(length, libc::MAP_PRIVATE | libc::MAP_ANON, -1)?;
    // SAFETY: the range was just mapped.
    let is_locked = unsafe { libc::mlock(start.as_ptr().cast(), length) } == 0;
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
        // SAFETY: as above. Where it is refused, the process is undumpable all the same.
        unsafe { libc::madvise(start.as_ptr().cast(), length, advice) };
    }
    let protection = if is_locked {
        Protection::Locked
    } else {
        Protection::Unlocked
    };
    Some((start, protection))
}

fn map(length: usize, flags: libc::c_int, fd: libc::c_int) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping, wherever the kernel likes.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(start.cast())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn flags_at(start: *mut u8) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
        let head = format!("{:x}-", start as usize);
        let entry = maps.split_once(&head).expect("the mapping").1;
        let flags = entry.lines().find(|line| line.starts_with("VmFlags:"));
        flags.expect("its flags").to_owned()
    }

    /// As `/proc/PID/mem` shows it to root.
    fn read_of_process(start: *mut u8) -> io::Result<[u8; 4]> {
        let mut bytes = [0; 4];
        let memory = File::open("/proc/self/mem")?;
        memory.read_exact_at(&mut bytes, start as u64)?;
        Ok(bytes)
    }

    #[test]
    fn a_page_is_locked_and_in_no_core_file_and_no_child() {
        let page = LockedPage::new(1).expect("a page");
        let flags = flags_at(page.start());
        assert!(flags.contains(" dd") && flags.contains(" dc"), "{flags}");
        assert_ne!(page.protection(), Protection::Unlocked);
        assert!(flags.contains(" lo"), "{flags}");
    }

    #[test]
    fn a_secret_page_cannot_be_read_through_proc() {
        let page = LockedPage::new(1).expect("a page");
        if page.protection() != Protection::Secret {
            println!("skipped: this kernel has no memfd_secret");
            return;
        }
        // SAFETY: the page is writable and long enough.
        unsafe { page.start().cast::<[u8; 4]>().write(*b"seal") };
        assert!(read_of_process(page.start()).is_err());
        // SAFETY: as above.
        assert_eq!(unsafe { page.start().cast::<[u8; 4]>().read() }, *b"seal");
    }

    #[test]
    fn a_page_of_the_other_kind_is_locked_as_well() {
        let (start, protection) = map_locked(4_096).expect("a page");
        let page = LockedPage {
            start,
            length: 4_096,
            protection,
        };
        let flags = flags_at(page.start());
        assert!(flags.contains(" dd") && flags.contains(" dc"), "{flags}");
        assert_eq!(
            flags.contains(" lo"),
            protection == Protection::Locked,
            "{flags}"
        );
    }
}
