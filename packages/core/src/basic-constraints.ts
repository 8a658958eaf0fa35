/** basicConstraints (RFC 5280, section 4.2.1.9): node:crypto tells no path length, and `ca` only together with the key usage. */

export interface BasicConstraints {
  readonly ca: boolean
  /** How many intermediates may stand between this issuer and a leaf; absent: any number. */
  readonly pathLength: number | undefined
}

interface Element {
  readonly tag: number
  readonly contents: Buffer
}

const BOOLEAN = 0x01
const INTEGER = 0x02
const EXTENSIONS = 0xa3
/** 2.5.29.19 */
const BASIC_CONSTRAINTS = Buffer.of(0x55, 0x1d, 0x13)

/** Reads them from a certificate's DER; throws a `RangeError` where that is no DER. */
export function readBasicConstraints(certificate: Buffer): BasicConstraints {
  const extension = extensionsOf(certificate).find(([id]) => id?.contents.equals(BASIC_CONSTRAINTS))
  const value = extension?.at(-1)
  if (!value) return { ca: false, pathLength: undefined }
  const fields = inside(elements(value.contents)[0])
  const ca = fields.find(field => field.tag === BOOLEAN)
  const pathLength = fields.find(field => field.tag === INTEGER)?.contents
  return {
    ca: ca !== undefined && ca.contents.readUInt8() !== 0,
    pathLength: pathLength?.readUIntBE(0, Math.min(pathLength.length, 6)),
  }
}

/** Each as its parts: identifier, critical or not, value. */
function extensionsOf(certificate: Buffer): readonly (readonly Element[])[] {
  const [signed] = inside(elements(certificate)[0])
  const [extensions] = inside(inside(signed).find(element => element.tag === EXTENSIONS))
  return inside(extensions).map(inside)
}

function inside(element: Element | undefined): readonly Element[] {
  return element ? elements(element.contents) : []
}

function elements(der: Buffer): readonly Element[] {
  const found: Element[] = []
  for (let offset = 0; offset < der.length; ) {
    const first = der.readUInt8(offset + 1)
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f
    const start = offset + 2 + lengthBytes
    const end = start + (lengthBytes === 0 ? first : der.readUIntBE(offset + 2, lengthBytes))
    if (end > der.length || first === 0x80) throw new RangeError('Cannot read DER: an element has no end')
    found.push({ tag: der.readUInt8(offset), contents: der.subarray(start, end) })
    offset = end
  }
  return found
}
