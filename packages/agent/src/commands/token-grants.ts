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

/** SPIFFE IDs, each also several by one brace: `spiffe://cluster.local/ns/load/sa/sa-{0..9}`; bounded over the file. */
function identities(): Schema<readonly SpiffeId[]> {
  let room = MAX_IMPERSONATED
  return text(input => {
    const expanded = input.includes('{') ? expandRange(input, room) : [input]
    if (typeof expanded === 'string') return new Fault('is no range', expanded)
    room -= expanded.length
    return expanded.every(isSpiffeId) ? expanded : new Fault('is no SPIFFE ID', 'Write spiffe://<trust domain>/<path>')
  }, 'Quote it')
}

function grants() {
  return list(
    object({
      token: text(
        input => (/^\S+$/.test(input) ? input : new Fault('is empty or has spaces', 'Write one word')),
        'Quote it',
      ),
      identity: spiffeId,
      impersonates: v.optional(list(identities())),
    }),
  )
}

/** Reads the file; rejects with a {@link ConfigError} that never shows a token. */
export async function readTokenGrants(file: string): Promise<TokenGrant[]> {
  const { value, lines } = await readDocument(file)
  const result = v.safeParse(grants(), value)
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
