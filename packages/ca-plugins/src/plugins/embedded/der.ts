/** Writes the part of DER (ITU-T X.690) that a certificate needs. */

const SEQUENCE = 0x30
const BOOLEAN_TRUE = Buffer.from([0x01, 0x01, 0xff])

/** One element: tag, length, and the contents one after the other. */
export function element(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const length = contents.reduce((sum, content) => sum + content.length, 0)
  return Buffer.concat([header(tag, length), ...contents])
}

export function sequence(...contents: readonly Uint8Array[]): Buffer {
  return element(SEQUENCE, ...contents)
}

/** `2.5.29.17` and the like. */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return element(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

/** A non-negative integer from its big-endian bytes, which have neither a leading zero nor the highest bit set. */
export function integer(bytes: Uint8Array): Buffer {
  return element(0x02, bytes)
}

/** A BIT STRING of whole bytes. */
export function bitString(bytes: Uint8Array): Buffer {
  return element(0x03, Buffer.of(0), bytes)
}

export function octetString(bytes: Uint8Array): Buffer {
  return element(0x04, bytes)
}

/** UTCTime until 2049, GeneralizedTime from 2050 on (RFC 5280, section 4.1.2.5). */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/\.\d+|[-:T]/g, '')
  return date.getUTCFullYear() < 2050
    ? element(0x17, Buffer.from(digits.slice(2), 'latin1'))
    : element(0x18, Buffer.from(digits, 'latin1'))
}

/** A certificate extension (RFC 5280, section 4.2). */
export function extension(id: string, critical: boolean, value: Uint8Array): Buffer {
  return sequence(objectIdentifier(id), ...(critical ? [BOOLEAN_TRUE] : []), octetString(value))
}

function header(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.of(tag, length)
  if (length < 0x100) return Buffer.of(tag, 0x81, length)
  if (length < 0x10000) return Buffer.of(tag, 0x82, length >> 8, length & 0xff)
  throw new RangeError(`Cannot write DER: ${length} bytes in one element are more than 65535`)
}

function base128(arc: number): number[] {
  const bytes = [arc & 0x7f]
  for (let rest = arc >>> 7; rest > 0; rest >>>= 7) bytes.unshift((rest & 0x7f) | 0x80)
  return bytes
}
