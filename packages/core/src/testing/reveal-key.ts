/** The private key of a secret, as a test compares it. */
import type { CertificateSecret } from '../secrets/certificate-secret.ts'

/** PEM, a copy for the caller. */
export function privateKeyOf({ privateKey }: CertificateSecret): Buffer {
  const key = Buffer.alloc(privateKey.byteLength)
  privateKey.copyTo(key, 0)
  return key
}
