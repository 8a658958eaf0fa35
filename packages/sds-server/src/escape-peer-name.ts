/** Text that came from a peer, made fit for one line of a log, a metric or the ledger. */

const MAX_NAME = 256

/** A resource name or node id in printable ASCII without quotes and backslashes, cut at 256 characters. */
export function escapePeerName(text: string): string {
  const escaped = text.slice(0, MAX_NAME).replace(/[^\x20-\x7e]|["\\]/gu, escapeCharacter)
  return text.length > MAX_NAME ? `${escaped}... (${text.length} characters)` : escaped
}

/** Every character but printable ASCII as `\u{…}`. */
export function escapeUnprintable(text: string): string {
  return text.replace(/[^\x20-\x7e]/gu, escapeCharacter)
}

function escapeCharacter(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}
