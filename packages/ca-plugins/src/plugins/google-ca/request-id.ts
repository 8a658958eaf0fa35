/** The ID by which Google's CAs answer a repeated request once (https://google.aip.dev/155). */
import { createHash } from 'node:crypto'

/**
 * A UUID that depends on nothing but the parts. It comes from the CSR, so that it outlives the call, and a restart if
 * the key does; the services require its form to be version 4.
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
