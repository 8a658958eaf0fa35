/** The keys of `trust`. */
import { splitCertificates } from '@livery/core'
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { kindOf, list, object, record, type Schema, text } from '../schema/schema-parts.ts'
import { duration, isPem, path } from '../schema/values.ts'

/** PEM itself, or the path of a file. */
const anchor = text(input => {
  if (!isPem(input)) return input === '' ? new Fault('is empty', 'Write a path or PEM') : input
  if (splitCertificates(input).length > 0) return input
  return new Fault('has no certificate', 'Write the roots as PEM: -----BEGIN CERTIFICATE-----')
}, 'Write a path, or PEM')

const httpsUrl = text(input => {
  const url = URL.canParse(input) ? new URL(input) : undefined
  const remedy = 'Write it like https://other.example/bundle'
  if (url?.protocol !== 'https:') return new Fault('is not an https URL', remedy)
  if (url.username !== '' || url.password !== '')
    return new Fault('has a user name or a password', 'Remove it: a bundle is public')
  return url.hash === '' ? input : new Fault('has a fragment', remedy)
}, 'Write a URL')

/** Where the roots of another trust domain come from, and its revocation lists. `rootCert` verifies the server of `url`. */
export type Federated = { readonly crl?: string | undefined } & (
  | { readonly file: string; readonly url?: undefined }
  | { readonly url: string; readonly rootCert?: string | undefined }
)

const federated = v.lazy(input =>
  isTreeObject(input) && 'file' in input
    ? object({ file: path, crl: v.optional(path) })
    : object({ url: httpsUrl, rootCert: v.optional(anchor), crl: v.optional(path) }),
) as Schema<Federated>

/** Roots, and lists of revoked certificates. */
export const trust = object({
  poll: duration({ min: '10s', max: '24h' }),
  anchors: list(anchor),
  crl: v.optional(path),
  federated: record(
    federated,
    input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { other.example: { file } }'),
  ),
})
