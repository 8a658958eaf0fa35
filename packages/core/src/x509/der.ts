/** Reads DER (ITU-T X.690) strictly: one tag byte, the shortest length, no byte left over. */

export interface Element {
  readonly tag: number
  readonly contents: Buffer
  /** The whole element, with tag and length. */
  readonly der: Buffer
}

export const BOOLEAN = 0x01
export const INTEGER = 0x02
export const BIT_STRING = 0x03
export const OCTET_STRING = 0x04
export const OBJECT_IDENTIFIER = 0x06
export const SEQUENCE = 0x30
export const SET = 0x31

/** The elements that `der` consists of; throws a `RangeError` where it is not DER. */
export function readElements(der: Buffer): readonly Element[] {
  const found: Element[] = []
  for (let offset = 0; offset < der.length; ) {
    const element = readElement(der, offset)
    found.push(element)
    offset += element.der.length
  }
  return found
}

/** The elements inside of the one SEQUENCE that `der` consists of; throws a `RangeError` otherwise. */
export function readInside(der: Buffer): readonly Element[] {
  const [element, ...more] = readElements(der)
  if (more.length > 0) throw notDer('bytes follow the value')
  return readElements(expectTag(element, SEQUENCE).contents)
}

export function expectTag(element: Element | undefined, tag: number): Element {
  if (element?.tag !== tag) throw notDer(`tag ${tag} is missing`)
  return element
}

/** DER has one way to write each value. */
export function readBoolean({ contents }: Element): boolean {
  const byte = contents.readUInt8()
  if (contents.length !== 1 || (byte !== 0 && byte !== 0xff)) throw notDer('a BOOLEAN is neither 00 nor FF')
  return byte !== 0
}

/** The bytes of a BIT STRING; unused bits of the last byte are 0. */
export function readBits({ contents }: Element): Buffer {
  const unused = contents.readUInt8()
  const last = contents.length > 1 ? contents.readUInt8(contents.length - 1) : 0
  if (unused > 7 || (contents.length === 1 && unused > 0) || last & ((1 << unused) - 1)) {
    throw notDer('a BIT STRING is padded wrongly')
  }
  return contents.subarray(1)
}

export function notDer(reason: string): RangeError {
  return new RangeError(`Cannot read DER: ${reason}`)
}

/** Where an element's contents are. */
export interface Extent {
  readonly tag: number
  readonly start: number
  readonly end: number
}

/** The element at `offset`, without allocating a buffer: for lists of many thousands. */
export function readExtent(der: Buffer, offset: number): Extent {
  const tag = der.readUInt8(offset)
  const first = der.readUInt8(offset + 1)
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f
  if ((tag & 0x1f) === 0x1f || first === 0x80 || lengthBytes > 4) throw notDer('a tag or length is of a form not used')
  const length = lengthBytes === 0 ? first : der.readUIntBE(offset + 2, lengthBytes)
  if (lengthBytes > 0 && (length < 0x80 || length < 256 ** (lengthBytes - 1))) throw notDer('a length is padded')
  const start = offset + 2 + lengthBytes
  const end = start + length
  if (end > der.length) throw notDer('an element has no end')
  return { tag, start, end }
}

function readElement(der: Buffer, offset: number): Element {
  const { tag, start, end } = readExtent(der, offset)
  return { tag, contents: der.subarray(start, end), der: der.subarray(offset, end) }
}
