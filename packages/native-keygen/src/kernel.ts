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
 * The text of `/proc/PID/cgroup` for the process that called `connect`. The process lived throughout the read, so the text
 * is not a later process's with the same pid. Throws an `Error` with `code`: `GONE` if that process has ended,
 * `OTHER_PID_NAMESPACE` if it cannot be seen from here, `TOO_LONG` over 64 KiB, or the system's code. Absent without the addon, and outside Linux.
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
 * Accepts the connections that wait on a listening socket, at most `most`. Never throws: the list is empty if none waits, or
 * `listener` does not listen. `listener` must be non-blocking, as Node's are: the event loop would wait for a blocking one.
 * Absent without the addon, and outside Linux.
 */
export const acceptWaiting: ((listener: number, most: number) => AcceptedConnections) | undefined =
  process.platform === 'linux' ? addon?.acceptWaiting : undefined

/**
 * Keeps keys out of core files: ends core files of this process (RLIMIT_CORE), and on Linux keeps other processes of its
 * user from reading its memory (PR_SET_DUMPABLE; `/proc/self` then belongs to root). Throws an `Error` with `code`. Absent
 * without the addon.
 */
export const disableCoreDumps: (() => void) | undefined = addon?.disableCoreDumps

/** The bridge to Rust would turn NaN and 2 ** 32 into 0. */
function checkDescriptor(fd: number): number {
  if (Number.isInteger(fd) && Math.abs(fd) < 2 ** 31) return fd
  throw new TypeError(`Cannot read peer credentials: fd is ${fd}; it must be a file descriptor`)
}
