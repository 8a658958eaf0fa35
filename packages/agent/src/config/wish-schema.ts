/** The keys that choose the content of a certificate, for an entry of `identities` and for `kubernetes`. */
import type { CertificateWish } from '@livery/core'
import * as v from 'valibot'
import { key, list, type Schema } from '../schema/schema-parts.ts'
import { duration, keyType } from '../schema/values.ts'

/** The values of the keys. */
export interface WishSetting {
  readonly dnsNames?: readonly string[] | undefined
  /** Milliseconds. */
  readonly ttl?: number | undefined
  readonly keyType?: CertificateWish['keyType']
}

export function wishKeys(dnsNames: { readonly form: Schema<string>; readonly meaning: string }) {
  return {
    dnsNames: v.optional(key(dnsNames.meaning, list(dnsNames.form))),
    ttl: v.optional(
      key('the lifetime to ask for, in place of `ttl` of the agent', duration({ min: '1s', max: '3650d' })),
    ),
    keyType: v.optional(key('the type of new keys, in place of `keyType` of the agent', keyType)),
  }
}

/** `undefined` if no key is set. */
export function wishOf({ dnsNames = [], ttl, keyType }: WishSetting): CertificateWish | undefined {
  if (dnsNames.length === 0 && ttl === undefined && keyType === undefined) return undefined
  return { keyType, ttlSeconds: ttl === undefined ? undefined : ttl / 1_000, dnsNames }
}
