/** The file of `livery ca --tokens`: who may call, by tokens that never change. */
import { isSpiffeId, type SpiffeId } from '@livery/core'
import * as v from 'valibot'
import { ConfigError } from '../config/config-error.ts'
import { childPath, readDocument } from '../config/document.ts'
import { expandRange } from '../config/identities.ts'
import { Fault, list, object, type Schema, text } from '../config/leaf.ts'
import { spiffeId } from '../config/values.ts'

/** As `staticTokens` of the CA server takes it. */
export interface TokenGrant {
  readonly token: string
  readonly identity: SpiffeId
  readonly impersonates?: readonly SpiffeId[]
}

const MAX_IMPERSONATED = 100_000

/** A SPIFFE ID, or several by one brace: `spiffe://cluster.local/ns/load/sa/sa-{0..9}`. */
const identities: Schema<readonly SpiffeId[]> = text(input => {
  const expanded = input.includes('{') ? expandRange(input, MAX_IMPERSONATED) : [input]
  if (typeof expanded === 'string') return new Fault('is no range', expanded)
  return expanded.every(isSpiffeId) ? expanded : new Fault('is no SPIFFE ID', 'Write spiffe://<trust domain>/<path>')
}, 'Quote it')

const grants = list(
  object({
    token: text(
      input => (/^\S+$/.test(input) ? input : new Fault('is empty or has spaces', 'Write one word')),
      'Quote it',
    ),
    identity: spiffeId,
    impersonates: v.optional(list(identities)),
  }),
)

/** Reads the file; throws a {@link ConfigError} that never shows a token. */
export function readTokenGrants(file: string): TokenGrant[] {
  const { value, lines } = readDocument(file)
  const result = v.safeParse(grants, value)
  if (result.success) {
    return result.output.map(({ impersonates, ...grant }) => ({
      ...grant,
      ...(impersonates && { impersonates: impersonates.flat() }),
    }))
  }
  throw new ConfigError(
    result.issues.map(issue => {
      const path = (issue.path ?? []).reduce((parent, item) => childPath(parent, item.key as string | number), '')
      return { origin: { kind: 'file', file, line: lines.get(path) ?? 1 }, path, text: issue.message }
    }),
  )
}
