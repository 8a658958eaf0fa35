//! The control groups of the process that connected to a UNIX socket, held against reuse of its pid.

use std::fmt;
use std::io;

/// Why the groups of a peer cannot be known.
#[derive(Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The process has ended: another may have its pid by now.
    Gone,
    /// It is in a pid namespace that this process cannot see, so it has no pid here.
    OtherPidNamespace,
    /// Its groups take more than 64 KiB of text.
    TooLong,
    /// The error number of the call that failed.
    System(&'static str, i32),
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => formatter.write_str("the process that connected has ended"),
            Self::OtherPidNamespace => formatter.write_str(
                "the process that connected is in a pid namespace that cannot be seen from here",
            ),
            Self::TooLong => {
                formatter.write_str("its control groups take more than 64 KiB of text")
            }
            Self::System(call, number) => {
                write!(
                    formatter,
                    "{call}: {}",
                    io::Error::from_raw_os_error(*number)
                )
            }
        }
    }
}

/// The text of `/proc/PID/cgroup` (cgroups(7)) for the process that called `connect`.
///
/// A descriptor of the process (pidfd_open(2)) is opened first, and checked last: while the process lives, no other can
/// have its pid, so the text is its own. SO_PEERPIDFD (Linux 6.5) returns the descriptor from the time of the `connect`;
/// without it, another process may have taken the pid in between.
#[cfg(target_os = "linux")]
pub fn peer_cgroups(fd: i32) -> Result<String, Unknown> {
    use linux::{has_ended, open_peer, read_cgroups};
    let pid = super::peer_credentials(fd)
        .map_err(|error| linux::system("getsockopt(SO_PEERCRED)", &error))?
        .pid;
    if pid <= 0 {
        return Err(Unknown::OtherPidNamespace);
    }
    let process = open_peer(fd, pid)?;
    let text = read_cgroups(pid);
    if has_ended(&process)? {
        return Err(Unknown::Gone);
    }
    text
}

#[cfg(not(target_os = "linux"))]
pub fn peer_cgroups(_fd: i32) -> Result<String, Unknown> {
    Err(Unknown::System("getsockopt(SO_PEERCRED)", libc::ENOTSUP))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::Unknown;

    /// asm-generic/socket.h; the libc crate does not name it on every target.
    const SO_PEERPIDFD: i32 = 77;
    /// A path has at most 4,096 bytes, and a machine a dozen hierarchies.
    const MOST_BYTES: u64 = 65_536;

    pub fn system(call: &'static str, error: &io::Error) -> Unknown {
        Unknown::System(call, error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// A descriptor of the process at the other end of `fd`.
    pub fn open_peer(fd: i32, pid: i32) -> Result<OwnedFd, Unknown> {
        let mut process: i32 = -1;
        let mut length = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `process`, which is an `i32`; any `fd` is allowed.
        let status = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut process).cast(),
                &raw mut length,
            )
        };
        if status == 0 {
            // SAFETY: the kernel made the descriptor for this call, and nobody else has it.
            return Ok(unsafe { OwnedFd::from_raw_fd(process) });
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => open_process(pid),
            // The kernel before 6.16 makes no descriptor of a process that was reaped.
            Some(libc::ESRCH | libc::EINVAL | libc::ENODATA) => Err(Unknown::Gone),
            _ => Err(system("getsockopt(SO_PEERPIDFD)", &error)),
        }
    }

    /// A descriptor of the process, for a kernel without SO_PEERPIDFD.
    pub fn open_process(pid: i32) -> Result<OwnedFd, Unknown> {
        // SAFETY: pidfd_open(2) takes two numbers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if process >= 0 {
            // SAFETY: the kernel made the descriptor for this call, and nobody else has it.
            return Ok(unsafe { OwnedFd::from_raw_fd(process as i32) });
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ESRCH) => Err(Unknown::Gone),
            _ => Err(system("pidfd_open", &error)),
        }
    }

    pub fn read_cgroups(pid: i32) -> Result<String, Unknown> {
        let unreadable = |error: io::Error| system("read /proc/PID/cgroup", &error);
        let mut bytes = Vec::with_capacity(1_024);
        File::open(format!("/proc/{pid}/cgroup"))
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Unknown::TooLong);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A descriptor of a process is readable once the process has ended (pidfd_open(2)), also before it is reaped.
    pub fn has_ended(process: &OwnedFd) -> Result<bool, Unknown> {
        let mut poll = libc::pollfd {
            fd: process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one `pollfd`, which outlives the call; a timeout of 0 does not wait.
        let status = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if status < 0 {
            return Err(system("poll", &io::Error::last_os_error()));
        }
        Ok(poll.revents != 0)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::linux::{has_ended, open_process};
    use super::*;

    fn own_cgroups() -> String {
        std::fs::read_to_string("/proc/self/cgroup").expect("the groups of this process")
    }

    #[test]
    fn the_groups_of_a_peer_are_those_of_its_process() {
        let (socket, _peer) = UnixStream::pair().expect("a socket pair");
        assert_eq!(peer_cgroups(socket.as_raw_fd()), Ok(own_cgroups()));
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_an_error_of_the_system() {
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        let error = peer_cgroups(file.as_raw_fd()).expect_err("no socket");
        assert_eq!(
            error,
            Unknown::System("getsockopt(SO_PEERCRED)", libc::ENOTSOCK)
        );
        assert!(error.to_string().starts_with("getsockopt(SO_PEERCRED): "));
    }

    /// Python, because a child of this process would have to be a program that connects.
    fn connect_from_child(name: &str, script: &str) -> Option<(UnixStream, Child)> {
        let path: PathBuf =
            std::env::temp_dir().join(format!("livery-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a UNIX socket");
        let child = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let connection = child.ok().map(|child| {
            let (socket, _) = listener.accept().expect("a connection");
            (socket, child)
        });
        std::fs::remove_file(&path).expect("removed");
        connection
    }

    const CONNECT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
sys.stdin.read()";

    #[test]
    fn a_process_that_ended_is_gone_before_and_after_it_is_reaped() {
        let Some((socket, mut child)) = connect_from_child("ended", CONNECT) else {
            return println!("skipped: needs python3, to connect from another process");
        };
        assert_eq!(peer_cgroups(socket.as_raw_fd()), Ok(own_cgroups()));
        drop(child.stdin.take());
        // The end of its output comes with the end of the process, which then is a zombie.
        let mut rest = Vec::new();
        let mut output = child.stdout.take().expect("its output");
        output.read_to_end(&mut rest).expect("the end");
        let process = open_process(child.id() as i32).expect("a zombie");
        while !has_ended(&process).expect("known") {
            std::thread::yield_now();
        }
        assert_eq!(peer_cgroups(socket.as_raw_fd()), Err(Unknown::Gone));
        child.wait().expect("reaped");
        assert_eq!(peer_cgroups(socket.as_raw_fd()), Err(Unknown::Gone));
        assert_eq!(
            open_process(child.id() as i32).map(|_| ()),
            Err(Unknown::Gone)
        );
    }

    #[test]
    fn a_connection_that_a_child_keeps_is_that_of_the_process_that_connected() {
        let script = "import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
if os.fork(): os._exit(0)
sys.stdin.read()";
        let Some((socket, mut child)) = connect_from_child("forked", script) else {
            return println!("skipped: needs python3, to connect from another process");
        };
        child.wait_with_stdin_open();
        assert_eq!(peer_cgroups(socket.as_raw_fd()), Err(Unknown::Gone));
    }

    trait WaitWithStdin {
        fn wait_with_stdin_open(&mut self);
    }

    impl WaitWithStdin for Child {
        /// `Child::wait` would close the input on which the forked process waits.
        fn wait_with_stdin_open(&mut self) {
            let input = self.stdin.take();
            self.wait().expect("ended");
            self.stdin = input;
        }
    }
}
