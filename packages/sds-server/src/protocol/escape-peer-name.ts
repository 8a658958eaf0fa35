/** Text that came from a peer, made fit for one line of a log, a metric or the ledger. */

const MAX_NAME = 256
const MAX_NODE_ID = 288

/** A resource name or node id in printable ASCII without quotes and backslashes, cut at 256 characters. */
export function escapePeerName(text: string): string {
  if (text.length <= MAX_NAME) return escapeName(text)
  return `${escapeName(copyStart(text, MAX_NAME))}... (${text.length} characters)`
}

/** As `escapePeerName`, cut also where escapes make it long: each stream keeps it. */
export function escapeNodeId(text: string): string {
  const escaped = escapePeerName(text)
  return escaped.length <= MAX_NODE_ID ? escaped : copyStart(escaped, MAX_NODE_ID)
}

/** The first characters as a separate text: in V8 a slice would keep the whole text in memory. */
export function copyStart(text: string, length: number): string {
  return Buffer.from(text.slice(0, length), 'utf16le').toString('utf16le')
}

function escapeName(text: string): string {
  return text.replace(/[^\x20-\x7e]|["\\]/gu, escapeCharacter)
}

/** Every character but printable ASCII as `\u{…}`. */
export function escapeUnprintable(text: string): string {
  return text.replace(/[^\x20-\x7e]/gu, escapeCharacter)
}

function escapeCharacter(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}
