/** Damages DER the way that a parser feels: whole elements changed, their lengths right, or bytes changed anywhere. */
import fc from 'fast-check'

interface Element {
  tag: number
  /** The elements inside, where those are DER (an OCTET STRING can hold DER, too). */
  children: Element[] | undefined
  contents: Buffer
  /** How the length is written. */
  length: 'shortest' | 'padded' | 'indefinite'
}

interface Mutation {
  readonly kind: (typeof KINDS)[number]
  /** Which element or byte, modulo their number. */
  readonly at: number
  readonly tag: number
  readonly bytes: Uint8Array
}

const KINDS = [
  'tag',
  'contents',
  'flip',
  'append',
  'prepend',
  'truncate',
  'drop',
  'double',
  'swap',
  'wrap',
  'pad length',
  'indefinite length',
  'byte',
  'insert byte',
  'delete byte',
] as const

const COMMON_TAGS = [
  0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0a, 0x0c, 0x12, 0x13, 0x14, 0x16, 0x17, 0x18, 0x1a, 0x1c, 0x1e, 0x24, 0x30,
  0x31, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6,
]

/** Values at which strings, numbers and dates break. */
const TELLING_BYTES = [
  '00',
  '0000',
  'ff',
  '80',
  '0080',
  'c3',
  'd800',
  '2c20',
  '22',
  '01',
  '7f',
  '4a',
  '30',
  '05',
  '5a',
].map(hex => new Uint8Array(Buffer.from(hex, 'hex')))

export const mutations: fc.Arbitrary<readonly Mutation[]> = fc.array(
  fc.record({
    kind: fc.constantFrom(...KINDS),
    at: fc.nat(1_000),
    tag: fc.oneof(fc.constantFrom(...COMMON_TAGS), fc.nat(255)),
    bytes: fc.oneof(fc.constantFrom(...TELLING_BYTES), fc.uint8Array({ maxLength: 24 })),
  }),
  { minLength: 1, maxLength: 3 },
)

/** `der` after all of `mutations`; what cannot be read as DER any more is changed by the byte. */
export function mutate(der: Buffer, mutations: readonly Mutation[]): Buffer {
  return mutations.reduce((current, mutation) => mutateElement(current, mutation) ?? mutateByte(current, mutation), der)
}

function mutateElement(der: Buffer, mutation: Mutation): Buffer | undefined {
  const roots = parse(der)
  if (!roots) return undefined
  const places = placesIn(roots)
  const place = places[mutation.at % places.length]
  return place && change(place, mutation) ? Buffer.concat(roots.map(encode)) : undefined
}

function mutateByte(der: Buffer, { kind, at, tag }: Mutation): Buffer {
  const position = der.length === 0 ? 0 : at % der.length
  const [before, after] = [der.subarray(0, position), der.subarray(position)]
  if (kind === 'insert byte') return Buffer.concat([before, Buffer.of(tag), after])
  if (kind === 'delete byte') return Buffer.concat([before, after.subarray(1)])
  return Buffer.concat([before, Buffer.of(tag), after.subarray(1)])
}

interface Place {
  readonly siblings: Element[]
  readonly index: number
  readonly element: Element
}

function placesIn(siblings: Element[]): Place[] {
  return siblings.flatMap((element, index) => [{ siblings, index, element }, ...placesIn(element.children ?? [])])
}

/** Returns false for a mutation that is of bytes, not of elements. */
function change({ siblings, index, element }: Place, { kind, at, tag, bytes }: Mutation): boolean {
  const replaceContents = (contents: Buffer) => Object.assign(element, { contents, children: parse(contents) })
  const contents = element.children ? Buffer.concat(element.children.map(encode)) : element.contents
  switch (kind) {
    case 'tag':
      element.tag = tag
      return true
    case 'contents':
      replaceContents(Buffer.from(bytes))
      return true
    case 'flip':
      if (contents.length === 0) return false
      replaceContents(mutateByte(Buffer.from(contents), { kind: 'byte', at: at * 7, tag, bytes }))
      return true
    case 'append':
      replaceContents(Buffer.concat([contents, bytes]))
      return true
    case 'prepend':
      replaceContents(Buffer.concat([bytes, contents]))
      return true
    case 'truncate':
      replaceContents(contents.subarray(0, -1))
      return true
    case 'drop':
      siblings.splice(index, 1)
      return true
    case 'double':
      siblings.splice(index, 0, element)
      return true
    case 'swap':
      siblings.splice(index, 1)
      siblings.push(element)
      return true
    case 'wrap':
      siblings[index] = { tag, children: [element], contents: Buffer.alloc(0), length: 'shortest' }
      return true
    case 'pad length':
      element.length = 'padded'
      return true
    case 'indefinite length':
      element.length = 'indefinite'
      return true
    default:
      return false
  }
}

function parse(der: Buffer): Element[] | undefined {
  const found: Element[] = []
  for (let offset = 0; offset < der.length; ) {
    const [tag, first] = [der[offset], der[offset + 1]]
    if (tag === undefined || first === undefined || first === 0x80 || first > 0x84 || (tag & 0x1f) === 0x1f)
      return undefined
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f
    const start = offset + 2 + lengthBytes
    if (start > der.length) return undefined
    const end = start + (lengthBytes === 0 ? first : der.readUIntBE(offset + 2, lengthBytes))
    if (end > der.length) return undefined
    const contents = der.subarray(start, end)
    const children = (tag & 0x20) !== 0 || (tag === 0x04 && contents.length > 0) ? parse(contents) : undefined
    found.push({ tag, contents, children, length: 'shortest' })
    offset = end
  }
  return found
}

function encode({ tag, children, contents, length }: Element): Buffer {
  const body = children ? Buffer.concat(children.map(encode)) : contents
  if (length === 'indefinite') return Buffer.concat([Buffer.of(tag, 0x80), body, Buffer.of(0, 0)])
  if (body.length < 0x80 && length === 'shortest') return Buffer.concat([Buffer.of(tag, body.length), body])
  const bytes = Buffer.alloc(3)
  bytes.writeUIntBE(body.length, 0, 3)
  const significant = length === 'padded' ? bytes : bytes.subarray(bytes.findIndex(byte => byte !== 0))
  return Buffer.concat([Buffer.of(tag, 0x80 | significant.length), significant, body])
}
