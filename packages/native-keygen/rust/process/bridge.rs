//! The addon's interface for system calls; `src/kernel.ts` is the other side.

use std::io;

use napi::{Error, Result};
use napi_derive::napi;

use super::peer_cgroups::Unknown;

#[napi(object, object_from_js = false)]
pub struct PeerCredentials {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// The peer of a connected UNIX socket; throws with the code `EBADF`, `ENOTSOCK`, `ENOTCONN` (not a UNIX socket, or
/// without a peer) or `ENOTSUP` (this is not Linux).
#[napi(catch_unwind)]
pub fn peer_credentials(fd: i32) -> Result<PeerCredentials, String> {
    let peer = super::peer_credentials(fd)
        .map_err(|error| system_error(&format!("read the peer of file descriptor {fd}"), &error))?;
    Ok(PeerCredentials {
        pid: peer.pid,
        uid: peer.uid,
        gid: peer.gid,
    })
}

#[napi(object, object_from_js = false)]
pub struct AcceptedConnections {
    /// The caller owns them.
    pub descriptors: Vec<i32>,
    /// The resource that the system ran out of: `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM`. Absent if it did not.
    pub error: Option<&'static str>,
}

/// Connections that wait on a listening socket, at most `most`. Empty if none waits, if `listener` does not listen, and
/// outside Linux. `listener` must be non-blocking, as Node's are: the call would wait for a blocking one.
#[napi(catch_unwind)]
pub fn accept_waiting(listener: i32, most: u32) -> AcceptedConnections {
    let accepted = super::accept_waiting(listener, most as usize);
    AcceptedConnections {
        descriptors: accepted.descriptors,
        error: accepted.error,
    }
}

/// No core file of this process from now on; on Linux its memory is closed to others of its user as well.
#[napi(catch_unwind)]
pub fn disable_core_dumps() -> Result<(), String> {
    super::disable_core_dumps().map_err(|error| system_error("disable core dumps", &error))
}

/// The text of `/proc/PID/cgroup` for the process that connected to a UNIX socket. Throws with the code `GONE`,
/// `OTHER_PID_NAMESPACE`, `TOO_LONG`, or the system's code, if that process has ended or its groups cannot be read.
#[napi(catch_unwind)]
pub fn peer_cgroups(fd: i32) -> Result<String, String> {
    super::peer_cgroups::peer_cgroups(fd).map_err(|unknown| {
        let code = match unknown {
            Unknown::Gone => "GONE",
            Unknown::OtherPidNamespace => "OTHER_PID_NAMESPACE",
            Unknown::TooLong => "TOO_LONG",
            Unknown::System(_, number) => code_of(number),
        };
        Error::new(code.into(), unknown.to_string())
    })
}

fn system_error(action: &str, error: &io::Error) -> Error<String> {
    let code = error.raw_os_error().map_or("EUNKNOWN", code_of);
    Error::new(code.into(), format!("Cannot {action}: {error}"))
}

fn code_of(number: i32) -> &'static str {
    match number {
        libc::EBADF => "EBADF",
        libc::ENOTSOCK => "ENOTSOCK",
        libc::ENOTCONN => "ENOTCONN",
        libc::ENOTSUP => "ENOTSUP",
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::ENOENT => "ENOENT",
        libc::ENOSYS => "ENOSYS",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::EMFILE => "EMFILE",
        _ => "EUNKNOWN",
    }
}
