/** The dates of a certificate: OpenSSL parses any text as one, and Node then gives an arbitrary date, or none. */
import type { X509Certificate } from 'node:crypto'

export interface CertificateDates {
  /** Milliseconds since the epoch. */
  readonly notBefore: number
  readonly notAfter: number
}

/** `undefined` unless both are dates: a deadline that is not a number would stop the clock for all others. */
export function datesOf({
  validFrom,
  validTo,
  validFromDate,
  validToDate,
}: X509Certificate): CertificateDates | undefined {
  if (Number.isNaN(Date.parse(validFrom)) || Number.isNaN(Date.parse(validTo))) return undefined
  return { notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() }
}
