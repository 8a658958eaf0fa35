/** The address of an admin endpoint as people write it: a URL as the log prints it, and a port alone too. */

/** `host:port` of `http://host:port/`, and `127.0.0.1:port` of a port; any other text as it is. */
export function plainAddress(text: string): string {
  const [, inURL = text] = /^http:\/\/([^/@]+)\/*$/i.exec(text) ?? []
  const plain = inURL.startsWith('unix:') ? inURL : inURL.replace(/\/+$/, '')
  return /^\d{1,5}$/.test(plain) ? `127.0.0.1:${plain}` : plain
}
