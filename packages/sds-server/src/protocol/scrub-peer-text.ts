/** Cuts the text of a NACK, which can carry a private key, to a part that is safe to keep. */
import { createHash } from 'node:crypto'
import { copyStart, escapeUnprintable } from './escape-peer-name.ts'

const MAX_VISIBLE = 200
/** Longer than any pattern of key material: one that begins later cannot become visible. */
const LONGEST_SIGN = 64

/** Each of these may begin key material, in the forms in which a peer may dump a Secret. */
const KEY_MATERIAL = new RegExp(
  [
    '-----', // PEM
    'BEGIN [A-Z]',
    'PRIVATE.?KEY',
    'LS0tLS1', // PEM in base64
    'inline_(?:bytes|string)', // protobuf text format of a DataSource
    'private_key',
    'value: ?"', // protobuf text format of an Any
    '\\\\(?:[0-7]{3}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f{])', // C escapes of binary
    '%[0-9A-Fa-f]{2}%[0-9A-Fa-f]{2}',
    '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ufffd]', // binary itself
    '[A-Za-z0-9+/_=-]{32}', // base64, hex
    '(?:[0-9A-Fa-f]{2}[ :,;]){8}', // a hex dump
    '(?:[0-9]{1,3}, ?){8}', // an array of bytes
  ].join('|'),
)

/**
 * Reduces the text of a NACK to the part that is safe to keep. Envoy puts a debug dump of a Secret that it could not
 * decode, private key included, into `error_detail`, so the text ends before the first possible key material, or after 200
 * characters. The length and a hash stand for the rest, so that equal reports can be recognized.
 */
export function scrubPeerText(text: string): string {
  // A peer may send 256 kB, which would take 50 ms to look through.
  const head = text.slice(0, MAX_VISIBLE + LONGEST_SIGN)
  const start = head.search(KEY_MATERIAL)
  const kept = copyStart(escapeUnprintable(start === -1 ? head : head.slice(0, start)), MAX_VISIBLE)
  if (kept === text) return text
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8)
  return `${kept}... (${text.length} characters, sha256 ${hash})`
}
