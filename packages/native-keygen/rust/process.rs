//! System calls that Node lacks: the peer of a UNIX socket, its waiting connections, and keeping keys out of core files.

pub mod bridge;
pub mod peer_cgroups;

use std::io;

pub struct PeerCredentials {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// SO_PEERCRED (unix(7)): the peer's credentials at the time of its `connect`.
#[cfg(target_os = "linux")]
pub fn peer_credentials(fd: i32) -> io::Result<PeerCredentials> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `peer`, which is a `ucred` of that size; any `fd` is allowed.
    let status = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // A TCP socket, and a UNIX socket without a peer, answer with uid -1 and no error.
    if peer.uid == u32::MAX {
        return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
    }
    Ok(PeerCredentials {
        pid: peer.pid,
        uid: peer.uid,
        gid: peer.gid,
    })
}

#[cfg(not(target_os = "linux"))]
pub fn peer_credentials(_fd: i32) -> io::Result<PeerCredentials> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// Connections that were accepted together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    pub descriptors: Vec<i32>,
    /// The resource that the system ran out of: `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM`.
    pub error: Option<&'static str>,
}

/// Accepts the connections that wait on a non-blocking listening socket, at most `most`, set up as libuv does (accept4(2)).
/// libuv takes one connection per turn of the event loop, so Envoys that arrive together would wait for as many turns.
///
/// A shortage of descriptors is reported here, since libuv then closes each new connection silently; the kernel reports it
/// even if no connection waits. libuv meets every other fault again at its next accept, and reports it.
#[cfg(target_os = "linux")]
pub fn accept_waiting(listener: i32, most: usize) -> Accepted {
    let mut accepted = Accepted::default();
    while accepted.descriptors.len() < most {
        // SAFETY: no address is asked for, so nothing is written; any `listener` is allowed.
        let fd = unsafe {
            libc::accept4(
                listener,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        if fd < 0 {
            accepted.error = shortage(&io::Error::last_os_error());
            break;
        }
        accepted.descriptors.push(fd);
    }
    accepted
}

#[cfg(target_os = "linux")]
fn shortage(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("EMFILE"),
        libc::ENFILE => Some("ENFILE"),
        libc::ENOBUFS => Some("ENOBUFS"),
        libc::ENOMEM => Some("ENOMEM"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
pub fn accept_waiting(_listener: i32, _most: usize) -> Accepted {
    Accepted::default()
}

/// No core file from now on (RLIMIT_CORE), and on Linux no reading of this process's memory by others of its user
/// (PR_SET_DUMPABLE, prctl(2)).
pub fn disable_core_dumps() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` outlives the call, which only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: PR_SET_DUMPABLE takes a number and no pointer.
    #[cfg(target_os = "linux")]
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    fn errno_of(fd: i32) -> Option<i32> {
        peer_credentials(fd)
            .err()
            .and_then(|error| error.raw_os_error())
    }

    #[test]
    fn the_peer_of_a_socket_pair_is_this_process() {
        let (socket, _peer) = UnixStream::pair().expect("a socket pair");
        let peer = peer_credentials(socket.as_raw_fd()).expect("credentials");
        assert_eq!(peer.pid.unsigned_abs(), std::process::id());
        // SAFETY: these two cannot fail and touch no memory.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        assert_eq!((peer.uid, peer.gid), (uid, gid));
    }

    /// Harmless to the other tests, though it lasts as long as their process.
    #[test]
    fn core_dumps_are_off_once_disabled() {
        disable_core_dumps().expect("no core dumps");
        let mut limit = libc::rlimit {
            rlim_cur: 1,
            rlim_max: 1,
        };
        // SAFETY: the kernel fills in `limit`, which outlives the call.
        let status = unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
        assert_eq!((status, limit.rlim_cur, limit.rlim_max), (0, 0, 0));
        // SAFETY: PR_GET_DUMPABLE takes no pointer.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE) }, 0);
    }

    #[test]
    fn what_waits_on_a_listener_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a TCP socket");
        // libuv's listeners do not block either.
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("its address");
        let _clients: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).expect("a connection"))
            .collect();
        let first = accept_waiting(listener.as_raw_fd(), 2);
        assert_eq!((first.descriptors.len(), first.error), (2, None));
        let last = accept_waiting(listener.as_raw_fd(), 9);
        assert_eq!((last.descriptors.len(), last.error), (1, None));
        assert_eq!(accept_waiting(-1, 9), Accepted::default());
        for fd in first.descriptors.into_iter().chain(last.descriptors) {
            // SAFETY: it was accepted above and nobody else has it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }

    #[test]
    fn what_has_no_peer_is_an_error() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a TCP socket");
        assert_eq!(errno_of(tcp.as_raw_fd()), Some(libc::ENOTCONN));
        let unconnected = UnixDatagram::unbound().expect("a UNIX socket");
        assert_eq!(errno_of(unconnected.as_raw_fd()), Some(libc::ENOTCONN));
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        assert_eq!(errno_of(file.as_raw_fd()), Some(libc::ENOTSOCK));
        assert_eq!(errno_of(-1), Some(libc::EBADF));
    }
}
