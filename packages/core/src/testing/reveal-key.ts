/** The private key of a secret, as a test compares it. */
import type { CertificateSecret } from '../secrets/secret-item.ts'

/** PEM, in bytes of the caller's own. */
export function privateKeyOf({ privateKey }: CertificateSecret): Buffer {
  const key = Buffer.alloc(privateKey.byteLength)
  privateKey.copyTo(key, 0)
  return key
}
