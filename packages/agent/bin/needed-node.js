/** Which Node runs Livery: the HTTP/2 library of older ones, nghttp2 before 1.69, does not end the connection of a caller that floods. */
export const NEEDED_NODE = '24.17, 26.2 or newer'

/** `version` is one of Node, such as 24.21.0. */
export function isNeededNode(version) {
  const [major, minor] = version.split('.').map(Number)
  return major > 26 || (major === 26 && minor >= 2) || (major === 24 && minor >= 17)
}
