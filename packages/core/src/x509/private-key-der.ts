/** PKCS#8 (RFC 5958, DER) of a private key in PEM, without a JavaScript string, which nothing could wipe. */
import { X509Certificate } from 'node:crypto'
import { OCTET_STRING, readInside, SEQUENCE } from './der.ts'
import { pemBlocks } from './pem-blocks.ts'

/** The older forms, which PKCS#8 wraps unchanged: RFC 8017 (A.1.2) and RFC 5915. */
const TRADITIONAL: readonly string[] = ['RSA PRIVATE KEY', 'EC PRIVATE KEY']
const NEWLINE = 0x0a
const DASH = 0x2d
/** An INTEGER 0. */
const VERSION = Buffer.from([0x02, 0x01, 0x00])

const SEXTETS = new Uint8Array(256)
Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/').forEach((character, value) => {
  SEXTETS[character] = value + 1
})

/**
 * The result is separate memory, which the caller wipes. `certificate` (PEM or DER) belongs to this key: it supplies the
 * algorithm of an older form. Throws a `TypeError` unless `pem` is a whole, unencrypted private key.
 */
export function privateKeyToPkcs8(pem: Uint8Array, certificate: Uint8Array): Buffer {
  const block = pemBlocks(Buffer.from(pem.buffer, pem.byteOffset, pem.byteLength)).find(({ label }) =>
    label.endsWith('PRIVATE KEY'),
  )
  if (!block?.bytes) throw new TypeError('Cannot read a private key: it is not a whole PEM block')
  const der = decodeBody(block.bytes)
  if (block.label === 'PRIVATE KEY') return der
  try {
    if (TRADITIONAL.includes(block.label)) return wrap(der, certificate)
    throw new TypeError(`Cannot read a private key: "${block.label}" is not PKCS#8, PKCS#1 or SEC 1`)
  } finally {
    der.fill(0)
  }
}

/** `pem` is one block. */
function decodeBody(pem: Buffer): Buffer {
  const start = pem.indexOf(NEWLINE) + 1
  const end = pem.indexOf(DASH, start)
  const body = pem.subarray(start, end)
  let characters = 0
  for (const character of body) if (SEXTETS[character]) characters++
  const der = Buffer.alloc(Math.floor((characters * 3) / 4))
  let bits = 0
  let count = 0
  let at = 0
  for (const character of body) {
    const sextet = SEXTETS[character] ?? 0
    if (sextet === 0) continue
    bits = ((bits << 6) | (sextet - 1)) & 0xfff
    count += 6
    if (count < 8) continue
    count -= 8
    der[at++] = (bits >> count) & 0xff
  }
  return der
}

function wrap(key: Buffer, certificate: Uint8Array): Buffer {
  const publicKey = new X509Certificate(certificate).publicKey.export({ type: 'spki', format: 'der' })
  const algorithm = readInside(publicKey)[0]?.der ?? Buffer.alloc(0)
  const keyHead = head(OCTET_STRING, key.length)
  const length = VERSION.length + algorithm.length + keyHead.length + key.length
  const parts = [head(SEQUENCE, length), VERSION, algorithm, keyHead, key]
  const wrapped = Buffer.alloc(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) at += part.copy(wrapped, at)
  return wrapped
}

/** Tag and length; every key is shorter than 64 KiB. */
function head(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.from([tag, length])
  if (length < 0x100) return Buffer.from([tag, 0x81, length])
  return Buffer.from([tag, 0x82, length >> 8, length & 0xff])
}
