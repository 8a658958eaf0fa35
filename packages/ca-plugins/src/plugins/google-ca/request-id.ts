/** The ID of a request to Google's CAs, by which one that is repeated is answered once (https://google.aip.dev/155). */
import { createHash } from 'node:crypto'

/**
 * A UUID that is the same for the same parts and differs for others. It comes from the CSR, so that it outlives the
 * call, and a restart where the key does; it is in the form of version 4, which is what the services take.
 */
export function requestId(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) {
    const bytes = Buffer.from(part)
    hash.update(`${bytes.length}:`).update(bytes)
  }
  const digest = hash.digest()
  digest.writeUInt8((digest.readUInt8(6) & 0x0f) | 0x40, 6)
  digest.writeUInt8((digest.readUInt8(8) & 0x3f) | 0x80, 8)
  const [, ...groups] = /^(.{8})(.{4})(.{4})(.{4})(.{12})/.exec(digest.toString('hex')) ?? []
  return groups.join('-')
}
