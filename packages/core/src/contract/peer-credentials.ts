/** The credentials of the peer on a UNIX socket. */

/** The kernel's answer to SO_PEERCRED (unix(7)): the credentials of the peer at the time of its `connect`. */
export interface PeerCredentials {
  readonly pid: number
  readonly uid: number
  readonly gid: number
}

/** Reads the credentials of the peer of a connected UNIX socket; throws an `Error` with `code` (`EBADF`, `ENOTSOCK`). */
export type ReadPeerCredentials = (fd: number) => PeerCredentials
