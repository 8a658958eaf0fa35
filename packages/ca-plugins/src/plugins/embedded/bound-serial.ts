/** Serial numbers that let only this CA recognise the grant under which it issued: a renewal needs the grant again. */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Issuer } from './certificate-profiles.ts'

/** 78 random bits (CA/Browser Forum asks for 64) and 8 bytes of HMAC: within the 20 octets of RFC 5280, section 4.1.2.2. */
const NONCE_BYTES = 10
const TAG_BYTES = 8

/** Hexadecimal, positive. */
export function boundSerial(issuer: Issuer, grant: string): string {
  const nonce = randomBytes(NONCE_BYTES)
  nonce[0] = ((nonce[0] ?? 0) & 0x3f) | 0x40
  return Buffer.concat([nonce, tagOf(issuer, nonce, grant)]).toString('hex')
}

/** Whether `serial` (hexadecimal) is one that `issuer` gave out under `grant`. */
export function isBoundTo(issuer: Issuer, serial: string, grant: string): boolean {
  const bytes = Buffer.from(serial, 'hex')
  if (bytes.length !== NONCE_BYTES + TAG_BYTES) return false
  const nonce = bytes.subarray(0, NONCE_BYTES)
  return timingSafeEqual(bytes.subarray(NONCE_BYTES), tagOf(issuer, nonce, grant))
}

function tagOf({ leafParts: { signingKey } }: Issuer, nonce: Uint8Array, grant: string): Buffer {
  const key = createHash('sha256')
    .update('livery grant')
    .update(signingKey.export({ type: 'pkcs8', format: 'der' }))
  return createHmac('sha256', key.digest()).update(nonce).update(grant).digest().subarray(0, TAG_BYTES)
}
