/** The access rules of one socket: path patterns for every caller, and rules for callers by SO_PEERCRED. */
import {
  isSpiffeId,
  type PeerCredentials,
  parseSpiffePattern,
  type SpiffeId,
  type SpiffePattern,
  spiffePatternProblem,
} from '@livery/core'
import type { WellKnownNames } from '../protocol/resource-name.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import { SdsServerError } from '../socket/sds-server-error.ts'
import { type GrantContext, Permission } from './permission.ts'

/** Allows a caller for whom every given field is right. */
export interface CallerRule {
  readonly uid?: number | undefined
  /** The primary group of the process that connected. */
  readonly gid?: number | undefined
  /** What this caller is allowed. Default: what the socket allows. */
  readonly allow?: readonly string[] | undefined
}

/** Which identities a socket serves. Every caller that is let in may have every trust bundle. */
export interface SocketAccess {
  /** Makes it the socket of one identity: it may be had, and `default` means it. */
  readonly identity?: SpiffeId
  /** SPIFFE IDs in which `*` stands for one path segment and `**` at the end for the rest. Default: none. */
  readonly allow?: readonly string[]
  /** If there are any, other callers are refused. A caller gets what both its rule and the socket allow. */
  readonly callers?: readonly CallerRule[] | undefined
  /** Whether an allowed identity that nobody added is issued when it is asked for. Default: false. */
  readonly onDemand?: boolean
}

/** The access rules of one socket. */
export class AccessPolicy {
  /** Whether callers are told apart, for which their credentials are needed. */
  readonly needsCredentials: boolean
  readonly #socket: readonly SpiffePattern[]
  readonly #callers: readonly { readonly rule: CallerRule; readonly allow: readonly SpiffePattern[] | undefined }[]
  readonly #grants: GrantContext
  /** What callers may have where they are not told apart. */
  readonly #everybody: Permission

  /** Throws an `SdsServerError` (`invalid-config`) that names the pattern or rule that cannot work. */
  constructor(access: SocketAccess, source: SecretSource, names: WellKnownNames) {
    if (access.identity && access.allow?.length) {
      throw new SdsServerError(
        'invalid-config',
        `Cannot use allow on the socket of one identity (${access.identity}): leave out identity or allow`,
      )
    }
    this.#grants = { source, names, onDemand: access.onDemand ?? false }
    this.#socket = (access.identity ? [access.identity] : (access.allow ?? [])).map(parsePattern)
    this.#callers = (access.callers ?? []).map(rule => ({
      rule: checkRule(rule),
      allow: rule.allow?.map(parsePattern),
    }))
    this.#everybody = new Permission(this.#grants, [this.#socket])
    this.needsCredentials = access.callers !== undefined
  }

  /** What a caller may have, or `undefined` for one that no rule lets in. */
  admit(caller: PeerCredentials | undefined): Permission | undefined {
    if (!this.needsCredentials) return this.#everybody
    const rules = this.#callers.filter(({ rule }) => caller && isCaller(rule, caller))
    if (rules.length === 0) return undefined
    const own = rules.flatMap(({ allow }) => allow ?? this.#socket)
    return new Permission(this.#grants, this.#socket.length > 0 ? [own, this.#socket] : [own])
  }

  /** All that is known now of what anybody may have here, and perhaps more. */
  known(): ReadonlySet<SpiffeId> {
    const { source } = this.#grants
    const named = this.#socket.flatMap(pattern => (pattern.kind === 'literal' ? [pattern.identity] : []))
    // That of one identity need not look at the thousands of others.
    if (named.length === 0 || named.length < this.#socket.length) return new Set(source.identities())
    return new Set(named.filter(identity => source.knows({ kind: 'identity', identity })))
  }
}

function parsePattern(text: string): SpiffePattern {
  const problem = isSpiffeId(text) ? undefined : spiffePatternProblem(text)
  if (problem === undefined) return parseSpiffePattern(text)
  throw new SdsServerError(
    'invalid-config',
    `Cannot use ${JSON.stringify(text)} in allow: it ${problem}. Write a SPIFFE ID or a pattern such as "spiffe://cluster.local/ns/*/sa/*"`,
  )
}

function checkRule(rule: CallerRule): CallerRule {
  if (rule.uid !== undefined || rule.gid !== undefined) return rule
  throw new SdsServerError(
    'invalid-config',
    'Cannot use a rule in callers that has neither uid nor gid: it would let in everybody',
  )
}

function isCaller(rule: CallerRule, caller: PeerCredentials): boolean {
  return (rule.uid ?? caller.uid) === caller.uid && (rule.gid ?? caller.gid) === caller.gid
}
