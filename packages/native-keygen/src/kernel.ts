/** System calls that Node does not have and `rust/process.rs` makes. */
import type { ReadPeerCredentials } from '@livery/core'
import { lookup } from './addon.ts'

const { addon } = lookup

/**
 * Identifies the peer of a connected UNIX socket (SO_PEERCRED). Throws an `Error` with `code`: `EBADF`, `ENOTSOCK`,
 * or `ENOTCONN` for a socket that is not a UNIX socket or has no peer. Absent without the addon, and outside Linux.
 */
export const readPeerCredentials: ReadPeerCredentials | undefined =
  addon && process.platform === 'linux' ? fd => addon.peerCredentials(checkDescriptor(fd)) : undefined

/**
 * The text of `/proc/PID/cgroup` for the process that called `connect`, which lived while that was read, so that it is not
 * the text of a later process of the same pid. Throws an `Error` with `code`: `GONE` if that process has ended,
 * `OTHER_PID_NAMESPACE` if it cannot be seen from here, `TOO_LONG` over 64 KiB, or that of the system. Absent without the addon, and outside Linux.
 */
export const readPeerCgroups: ((fd: number) => string) | undefined =
  addon?.peerCgroups && process.platform === 'linux' ? fd => addon.peerCgroups(checkDescriptor(fd)) : undefined

export interface AcceptedConnections {
  /** The caller's to close. */
  readonly descriptors: readonly number[]
  /** The resource that the system ran out of, which libuv does not report: `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM`. */
  readonly error?: string
}

/**
 * Accepts what waits on a listening socket, at most `most` connections. Never throws: none where none waits, or where
 * `listener` does not listen. `listener` must not block, as no listener of Node does: the event loop would wait for one
 * that blocks. Absent without the addon, and outside Linux.
 */
export const acceptWaiting: ((listener: number, most: number) => AcceptedConnections) | undefined =
  process.platform === 'linux' ? addon?.acceptWaiting : undefined

/**
 * Keeps keys out of core files: no core file of this process from now on (RLIMIT_CORE), and on Linux no reading of its
 * memory by other processes of its user (PR_SET_DUMPABLE; `/proc/self` then belongs to root). Throws an `Error` with
 * `code`. Absent without the addon.
 */
export const disableCoreDumps: (() => void) | undefined = addon?.disableCoreDumps

/** Without it NaN would become 0 on the way to Rust, and 2 ** 32 too. */
function checkDescriptor(fd: number): number {
  if (Number.isInteger(fd) && Math.abs(fd) < 2 ** 31) return fd
  throw new TypeError(`Cannot read peer credentials: fd is ${fd}; it must be a file descriptor`)
}
