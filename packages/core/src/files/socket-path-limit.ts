/** How long the path of a UNIX socket can be. */

/** unix(7): `sun_path` has 108 bytes, the last of them zero. Node cuts a longer path without an error. */
export const MAX_SOCKET_PATH_BYTES = 107
