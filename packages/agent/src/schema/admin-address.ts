/** The address of an admin endpoint in the forms that people write: a URL as the log prints it, or a port alone. */

/** `host:port` for `http://host:port/`, and `127.0.0.1:port` for a port; any other text unchanged. */
export function plainAddress(text: string): string {
  const [, inURL = text] = /^http:\/\/([^/@]+)\/*$/i.exec(text) ?? []
  const plain = inURL.startsWith('unix:') ? inURL : inURL.replace(/\/+$/, '')
  return /^\d{1,5}$/.test(plain) ? `127.0.0.1:${plain}` : plain
}
