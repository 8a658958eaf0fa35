/**
 * Text fields of protobuf messages (https://protobuf.dev/programming-guides/encoding/), by hand, since a writer for these few
 * bytes cost a tenth of a response.
 */

export function textFieldLength(text: string): number {
  const length = Buffer.byteLength(text)
  let prefix = 2
  for (let rest = length >>> 7; rest > 0; rest >>>= 7) prefix++
  return prefix + length
}

/** Returns where the field ends. */
export function writeTextField(target: Buffer, start: number, number: number, text: string): number {
  let at = target.writeUInt8((number << 3) | 2, start)
  let rest = Buffer.byteLength(text)
  for (; rest > 0x7f; rest >>>= 7) at = target.writeUInt8((rest & 0x7f) | 0x80, at)
  at = target.writeUInt8(rest, at)
  return at + target.write(text, at)
}
