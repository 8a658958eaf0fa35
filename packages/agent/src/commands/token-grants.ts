/** The file of `livery ca --tokens`: who may call. It is read again when it has changed. */
import { type BigIntStats, statSync } from 'node:fs'
import { checkGrants, type TokenGrant } from '@livery/ca-plugins/istio-ca-server'
import { isSpiffeId, type SpiffeId } from '@livery/core'
import * as v from 'valibot'
import { ConfigError, describeConfigError } from '../config/config-error.ts'
import { childPath, readDocument } from '../config/document.ts'
import { expandRange } from '../config/identities.ts'
import { Fault, list, object, type Schema, text } from '../config/leaf.ts'
import { spiffeId } from '../config/values.ts'

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

/** A file of grants as it is now: a token that is taken out of it is worthless from the next call on. */
export class TokenGrantsFile {
  readonly #path: string
  readonly #warn: (message: string) => void
  #grants: readonly TokenGrant[] = []
  #version: string | undefined

  /** Throws a {@link ConfigError}, or a `TypeError` for a repeated token; neither shows a token. */
  constructor(path: string, warn: (message: string) => void) {
    this.#path = path
    this.#warn = warn
    this.#version = versionOf(path)
    this.#grants = readTokenGrants(path)
  }

  /** The same array while the file is the same. None, with one warning, while it cannot be used. */
  readonly current = async (): Promise<readonly TokenGrant[]> => {
    // Before it is read: if it changes in between, the next call reads it again.
    const version = versionOf(this.#path)
    if (version === this.#version) return this.#grants
    this.#version = version
    try {
      this.#grants = readTokenGrants(this.#path)
    } catch (error) {
      this.#grants = []
      const reason = error instanceof ConfigError ? describeConfigError(error) : String(error)
      this.#warn(`Every token is refused until ${this.#path} can be used: ${reason}`)
    }
    return this.#grants
  }
}

function versionOf(path: string): string | undefined {
  const found: BigIntStats | undefined = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found && [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join()
}

/** Reads the file; throws a {@link ConfigError} that never shows a token. */
function readTokenGrants(file: string): readonly TokenGrant[] {
  const { value, lines } = readDocument(file)
  const result = v.safeParse(grants, value)
  if (result.success) {
    const found = result.output.map(({ impersonates, ...grant }) => ({
      ...grant,
      ...(impersonates && { impersonates: impersonates.flat() }),
    }))
    checkGrants(found)
    return found
  }
  throw new ConfigError(
    result.issues.map(issue => {
      const path = (issue.path ?? []).reduce((parent, item) => childPath(parent, item.key as string | number), '')
      return { origin: { kind: 'file', file, line: lines.get(path) ?? 1 }, path, text: issue.message }
    }),
  )
}
