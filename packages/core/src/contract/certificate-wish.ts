/** The wish of an operator for the certificate of one identity. */

import type { KeyType } from './key-generator.ts'

/** One value, which is replaced whole. */
export interface CertificateWish {
  /** Default: the agent's key type. */
  readonly keyType?: KeyType | undefined
  /** Default: the agent's lifetime. */
  readonly ttlSeconds?: number | undefined
  /** Valid names, each once: see `dnsNamesProblem`. */
  readonly dnsNames: readonly string[]
}

export const NO_WISH: CertificateWish = { dnsNames: [] }

/** The same text for equal wishes: a certificate is kept with the text of its wish. */
export function wishText({ keyType, ttlSeconds, dnsNames }: CertificateWish): string {
  return [keyType, ttlSeconds, ...dnsNames.toSorted()].join(' ')
}
