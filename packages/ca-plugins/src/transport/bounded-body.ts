/** Reads a response body, up to a limit. */
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

/** Each piece costs as much as a thousand bytes: a million chunks of one byte would take seconds. */
export const MAX_PIECES = 4_096

/**
 * `undefined` for a body of more than `maxBytes` or {@link MAX_PIECES} pieces: the rest is not read, and its connection
 * ends. Listens instead of iterating, since the iterator of a stream joins pieces before they can be counted.
 */
export async function readBounded(body: Readable, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  let isWhole = true
  body.on('data', (chunk: Uint8Array) => {
    length += chunk.byteLength
    if (!isWhole || (length <= maxBytes && chunks.push(chunk) <= MAX_PIECES)) return
    isWhole = false
    body.destroy()
  })
  try {
    await finished(body)
  } catch (error) {
    if (isWhole) throw error
  }
  return isWhole ? Buffer.concat(chunks) : undefined
}
