/** Bounds on the messages of the Workload API before they are decoded: an empty field of two bytes becomes an object of a hundred. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'

/** The most identities of a push, and trust domains: a node has some hundred, and reading each takes 40 µs. */
export const MAX_PARTS = 5_000
/** An identity has five, and the bundle of a trust domain two. */
const MAX_FIELDS = 16

/** Whether the message and each of its fields with the number `part` have few fields. Throws for bytes that are not a message. */
export function isWithinBounds(bytes: Uint8Array, part: number): boolean {
  const reader = new BinaryReader(bytes)
  for (let count = 0; reader.pos < reader.len; count++) {
    const [number, type] = reader.tag()
    if (count === MAX_PARTS || type === WireType.StartGroup) return false
    if (number !== part || type !== WireType.LengthDelimited) reader.skip(type)
    else if (!hasFewFields(reader, reader.uint32())) return false
  }
  return true
}

function hasFewFields(reader: BinaryReader, length: number): boolean {
  const end = reader.pos + length
  for (let count = 0; reader.pos < end; count++) {
    const [, type] = reader.tag()
    if (count === MAX_FIELDS || type === WireType.StartGroup) return false
    reader.skip(type)
  }
  return true
}
