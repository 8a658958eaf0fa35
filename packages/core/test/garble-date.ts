/** A certificate with a date that OpenSSL parses, though it is not one; its signature no longer fits. */
import { X509Certificate } from 'node:crypto'
import { derToPem } from '../src/x509/pem.ts'

/** Tag and length of a UTCTime (X.690 section 11.8). */
const UTC_TIME = Buffer.from([0x17, 0x0d])

/** `pem` with its notBefore replaced. */
export function garbleNotBefore(pem: string): string {
  const der = Buffer.from(new X509Certificate(pem).raw)
  der.write('not-a-date-at', der.indexOf(UTC_TIME) + UTC_TIME.length, 'latin1')
  return derToPem(der, 'CERTIFICATE')
}
