/** Bodies of answers, which their sender may make as long as it likes. */

/** `undefined` if it has more than `maxBytes`: then the rest is not read, and its connection ends. */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | null,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop early cancels the rest.
  for await (const chunk of body ?? []) {
    length += chunk.byteLength
    if (length > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
