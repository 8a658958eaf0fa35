/** The keys of `trust`. */
import { DEFAULT_OPTIONS as MANAGER } from '@livery/core'
import { splitCertificates } from '@livery/core/plugin'
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { formatDuration } from '../schema/duration.ts'
import { Fault } from '../schema/fault.ts'
import { key, kindOf, list, object, oneForm, record, section, text, withPath } from '../schema/schema-parts.ts'
import { absolutePath, duration, isPem, path } from '../schema/values.ts'

/** PEM text, or the path of a file. */
const anchor = withPath(
  text(
    'path or PEM',
    input => {
      if (!isPem(input)) return input === '' ? new Fault('is empty', 'Write a path or PEM') : input
      if (splitCertificates(input).length > 0) return input
      return new Fault('has no certificate', 'Write the roots as PEM: -----BEGIN CERTIFICATE-----')
    },
    'Write a path, or PEM',
  ),
  absolutePath,
)

const httpsUrl = text(
  'https URL',
  input => {
    const url = URL.canParse(input) ? new URL(input) : undefined
    const remedy = 'Write it like https://other.example/bundle'
    if (url?.protocol !== 'https:') return new Fault('is not an https URL', remedy)
    if (url.username !== '' || url.password !== '')
      return new Fault('has a user name or a password', 'Remove it: a bundle is public')
    return url.hash === '' ? input : new Fault('has a fragment', remedy)
  },
  'Write a URL',
)

/** The source of another trust domain's roots and revocation lists. `rootCert` verifies the server of `url`. */
export type Federated = { readonly crl?: string | undefined } & (
  | { readonly file: string; readonly url?: undefined }
  | { readonly url: string; readonly rootCert?: string | undefined }
)

const crl = v.optional(key('revocation lists of this trust domain: PEM, read again when the file changes', path))
const federatedFile = object({
  file: key('the roots: PEM or a SPIFFE bundle, read again when the file changes', path),
  crl,
})
const federatedUrl = object({
  url: key(
    'in place of `file`, a SPIFFE bundle endpoint (profile `https_web`), asked as often as its refresh hint says',
    httpsUrl,
  ),
  rootCert: v.optional(key('what verifies the server of `url`; without it, the roots of the machine', anchor)),
  crl,
})
const federated = oneForm<Federated>([federatedFile, federatedUrl], input =>
  isTreeObject(input) && 'file' in input ? federatedFile : federatedUrl,
)

/** Roots, and lists of revoked certificates. */
export const trust = section('roots beside those that the CA sends, and revocation lists', {
  poll: key('how often to ask a CA that lists its roots but does not push them', duration({ min: '10s', max: '24h' }), {
    default: formatDuration(MANAGER.rootsPollMs),
  }),
  anchors: key(
    "roots of the agent's trust domain: trusted beside the CA's roots, and never removed by a list of the CA",
    list(anchor),
    { default: [], live: true },
  ),
  crl: v.optional(
    key("revocation lists of the agent's trust domain: PEM, served beside the roots", path, { live: true }),
  ),
  federated: key(
    'the roots of other trust domains, by their names; each is served as `spiffe://NAME`',
    record(federated, input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { other.example: { file } }')),
    { default: {}, live: true },
  ),
})
