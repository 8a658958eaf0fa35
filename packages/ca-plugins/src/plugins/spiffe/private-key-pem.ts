/** PEM (RFC 7468) of a key, without a string of it, which nobody could wipe. */

const ALPHABET = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const BEGIN = Buffer.from('-----BEGIN PRIVATE KEY-----\n')
const END = Buffer.from('-----END PRIVATE KEY-----\n')
const LINE_LENGTH = 64

/** PKCS#8, DER to PEM, in memory of its own: who gets it wipes it. */
export function privateKeyPem(der: Uint8Array): Buffer {
  const digits = Math.ceil((der.length * 8) / 6)
  const padded = Math.ceil(digits / 4) * 4
  const lines = Math.ceil(padded / LINE_LENGTH)
  const pem = Buffer.alloc(BEGIN.length + padded + lines + END.length, '=')
  pem.set(BEGIN)
  const body = pem.subarray(BEGIN.length, -END.length)
  for (let index = 0; index < digits; index++)
    body[index + Math.floor(index / LINE_LENGTH)] = ALPHABET[sextet(der, index)] ?? 0
  for (let line = 1; line < lines; line++) body[line * (LINE_LENGTH + 1) - 1] = 0x0a
  pem.set([0x0a, ...END], pem.length - END.length - 1)
  return pem
}

/** The six bits at `6 * index`; beyond the end are zeros. */
function sextet(bytes: Uint8Array, index: number): number {
  const bit = index * 6
  const at = bit >> 3
  const both = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
  return (both >> (10 - (bit & 7))) & 0x3f
}
