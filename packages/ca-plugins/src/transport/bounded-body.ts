/** Bodies of answers, which their sender may make as long, and cut as small, as it likes. */
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

/** Each piece costs what a thousand bytes do: an answer of a million chunks of one byte would take seconds. */
export const MAX_PIECES = 4_096

/** `undefined` if it has more than `maxBytes` or `MAX_PIECES` pieces: then the rest is not read, and its connection ends. */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | null,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop early cancels the rest.
  for await (const chunk of body ?? []) {
    length += chunk.byteLength
    if (length > maxBytes || chunks.push(chunk) > MAX_PIECES) return undefined
  }
  return Buffer.concat(chunks)
}

/** The same of a stream of Node, whose iterator would join the pieces before they are counted. */
export async function readBoundedStream(body: Readable, maxBytes: number): Promise<Buffer | undefined> {
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
