/** The file of `livery ca --tokens`: the allowed callers. It is read again when it changes. */

import { type BigIntStats, statSync } from 'node:fs'
import { checkGrants, type TokenGrant } from '@livery/ca-plugins/istio-ca-server'
import { isSpiffeId, MIN_SECRET_LENGTH, type SpiffeId, stampOf } from '@livery/core/plugin'
import * as v from 'valibot'
import { expandRange } from '../config/identities.ts'
import { check } from '../schema/check.ts'
import { ConfigError, describeConfigError } from '../schema/config-error.ts'
import { Location, plain } from '../schema/config-tree.ts'
import { readDocument } from '../schema/document.ts'
import { Fault, faultText } from '../schema/fault.ts'
import { list, object, type Schema, text } from '../schema/schema-parts.ts'
import { dnsName, spiffeId } from '../schema/values.ts'

const MAX_IMPERSONATED = 100_000

/** SPIFFE IDs; one brace stands for several: `spiffe://cluster.local/ns/load/sa/sa-{0..9}`. The file's total is bounded. */
function identities(): Schema<readonly SpiffeId[]> {
  let room = MAX_IMPERSONATED
  return text(
    'SPIFFE ID',
    input => {
      const expanded = input.includes('{') ? expandRange(input, room) : [input]
      if (expanded instanceof Fault) return new Fault('is not a range', faultText(expanded))
      room -= expanded.length
      return expanded.every(isSpiffeId)
        ? expanded
        : new Fault('is not a SPIFFE ID', 'Write spiffe://<trust domain>/<path>')
    },
    'Quote it',
  )
}

function token(input: string): string | Fault {
  if (!/^\S+$/.test(input)) return new Fault('is empty or has spaces', 'Write one word')
  const isLong = input.length >= MIN_SECRET_LENGTH
  return isLong ? input : new Fault(`has fewer than ${MIN_SECRET_LENGTH} characters`, 'Write a longer one')
}

function grants() {
  return list(
    object({
      token: v.optional(text('text', token, 'Quote it')),
      identity: spiffeId,
      impersonates: v.optional(list(identities())),
      dnsNames: v.optional(list(dnsName)),
    }),
  )
}

/** The grants of a file as it is now: a token that is removed from it is refused from the next call on. */
export class TokenGrantsFile {
  readonly #path: string
  readonly #warn: (message: string) => void
  #version: string | undefined
  #grants: Promise<readonly TokenGrant[]>

  private constructor(
    path: string,
    warn: (message: string) => void,
    version: string | undefined,
    grants: readonly TokenGrant[],
  ) {
    this.#path = path
    this.#warn = warn
    this.#version = version
    this.#grants = Promise.resolve(grants)
  }

  /** Rejects with a {@link ConfigError}, or a `TypeError` for a repeated token; neither shows a token. */
  static async open(path: string, warn: (message: string) => void): Promise<TokenGrantsFile> {
    const version = versionOf(path)
    return new TokenGrantsFile(path, warn, version, await readTokenGrants(path))
  }

  /** The same array while the file is unchanged. Empty, with one warning, while the file cannot be used. */
  readonly current = async (): Promise<readonly TokenGrant[]> => {
    // The version is taken before the read, so that a later change is noticed. Callers meanwhile wait for the same read.
    const version = versionOf(this.#path)
    if (version !== this.#version) {
      this.#version = version
      this.#grants = this.#readOrNone()
    }
    return await this.#grants
  }

  async #readOrNone(): Promise<readonly TokenGrant[]> {
    try {
      return await readTokenGrants(this.#path)
    } catch (error) {
      const reason = error instanceof ConfigError ? describeConfigError(error) : String(error)
      this.#warn(`Every token is refused until ${this.#path} can be used: ${reason}`)
      return []
    }
  }
}

function versionOf(path: string): string | undefined {
  const found: BigIntStats | undefined = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found && stampOf(found)
}

/** Reads the file; rejects with a {@link ConfigError} that never shows a token. */
async function readTokenGrants(file: string): Promise<readonly TokenGrant[]> {
  const { root } = await readDocument(file)
  const checked = check(grants(), plain(root))
  if ('refusals' in checked) {
    const at = new Location(root)
    throw new ConfigError(checked.refusals.map(({ path, fault }) => at.child(...path).problem(fault)))
  }
  const found = checked.output.map(({ impersonates, ...grant }) => ({
    ...grant,
    ...(impersonates && { impersonates: impersonates.flat() }),
  }))
  checkGrants(found)
  return found
}
