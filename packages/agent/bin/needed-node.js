/** The versions of Node that run Livery: older ones have nghttp2 before 1.69, which does not end the connection of a flooding caller. */
export const NEEDED_NODE = '24.17, 26.2 or newer'

/** `version` is a version of Node, such as 24.21.0. */
export function isNeededNode(version) {
  const [major, minor] = version.split('.').map(Number)
  return major > 26 || (major === 26 && minor >= 2) || (major === 24 && minor >= 17)
}
