/** Text that came from a peer, made fit for one line of a log, a metric or the ledger. */

const MAX_NAME = 256

/** A resource name or node id in printable ASCII, cut at 256 characters. */
export function escapePeerName(text: string): string {
  const escaped = escapeUnprintable(text.slice(0, MAX_NAME))
  return text.length > MAX_NAME ? `${escaped}... (${text.length} characters)` : escaped
}

/** Every character but printable ASCII as `\u{…}`, quotes and backslashes too, so that nothing can be forged in a line. */
export function escapeUnprintable(text: string): string {
  return text.replace(/[^\x20-\x7e]|["\\]/gu, character => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
}
