/** Frames to and from a plugin's process: length, JSON, then raw bytes. The length is checked before anything is read. */

/** The most bytes that a plugin's process may send in one message: twice a complete list of roots in JSON. */
export const MAX_CHILD_FRAME = 2_097_152
/** The agent's own messages are trusted, so this bound is wider. */
export const MAX_AGENT_FRAME = 67_108_864
const MAX_DEPTH = 32
const LENGTH_BYTES = 4

/**
 * Takes `Uint8Array`s over: copies them behind the JSON, where {@link decodeFrame} finds them in the same order, and wipes
 * them. No key or certificate becomes a string on the way. A `Set` is sent as a list.
 */
export function encodeFrame(message: unknown): Buffer {
  const blobs: Uint8Array[] = []
  const text = JSON.stringify(message, (_, value: unknown) => {
    if (value instanceof Set) return [...value]
    if (!(value instanceof Uint8Array)) return value
    blobs.push(value)
    return { $bytes: value.length }
  })
  const json = Buffer.from(text)
  const head = Buffer.alloc(2 * LENGTH_BYTES)
  const length = blobs.reduce((sum, blob) => sum + blob.length, LENGTH_BYTES + json.length)
  head.writeUInt32BE(length, 0)
  head.writeUInt32BE(json.length, LENGTH_BYTES)
  const frame = Buffer.concat([head, json, ...blobs])
  for (const blob of blobs) blob.fill(0)
  json.fill(0)
  return frame
}

/** Throws for bytes that `encodeFrame` has not made. `body` can be wiped afterwards: its bytes are copied. */
export function decodeFrame(body: Buffer): unknown {
  const blobsAt = LENGTH_BYTES + body.readUInt32BE(0)
  if (blobsAt > body.length) throw new RangeError('its JSON is longer than the message')
  const message: unknown = JSON.parse(body.toString('utf8', LENGTH_BYTES, blobsAt))
  return revive(message, new Blobs(body.subarray(blobsAt)), 0)
}

/** Hands bytes out only once: otherwise a small message could name the same ones thousands of times. */
class Blobs {
  #rest: Buffer

  constructor(all: Buffer) {
    this.#rest = all
  }

  take(length: unknown): Uint8Array {
    if (typeof length !== 'number' || !Number.isInteger(length) || length < 0 || length > this.#rest.length)
      throw new RangeError('it names more bytes than it has')
    const taken = Uint8Array.from(this.#rest.subarray(0, length))
    this.#rest = this.#rest.subarray(length)
    return taken
  }
}

function revive(value: unknown, blobs: Blobs, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) throw new RangeError(`it is nested deeper than ${MAX_DEPTH} levels`)
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = revive(value[index], blobs, depth + 1)
    return value
  }
  if ('$bytes' in value) return blobs.take(value.$bytes)
  const object = value as Record<string, unknown>
  for (const key of Object.keys(object)) object[key] = revive(object[key], blobs, depth + 1)
  return object
}

/** Yields each frame's body, and wipes it at the next call. Throws for one over `maxLength` bytes before it allocates. */
export async function* readFrames(input: AsyncIterable<Buffer>, maxLength: number): AsyncGenerator<Buffer> {
  const head = Buffer.alloc(LENGTH_BYTES)
  let target = head
  let filled = 0
  for await (const chunk of input) {
    for (let at = 0; at < chunk.length; ) {
      const count = chunk.copy(target, filled, at)
      at += count
      filled += count
      if (filled < target.length) break
      filled = 0
      if (target === head) {
        target = Buffer.alloc(checkedLength(head.readUInt32BE(0), maxLength))
        continue
      }
      yield target
      target.fill(0)
      target = head
    }
    chunk.fill(0)
  }
}

function checkedLength(length: number, maxLength: number): number {
  if (length >= LENGTH_BYTES && length <= maxLength) return length
  throw new RangeError(`it has ${length} bytes, not ${LENGTH_BYTES} to ${maxLength}`)
}
