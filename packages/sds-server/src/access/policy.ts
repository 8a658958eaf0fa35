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

/** Admits a caller that matches every given field. */
export interface CallerRule {
  readonly uid?: number | undefined
  /** The primary group of the process that connected. */
  readonly gid?: number | undefined
  /** What this caller is allowed. Default: what the socket allows. */
  readonly allow?: readonly string[] | undefined
}

/** The identities that a socket serves. Every caller that is let in is allowed every trust bundle. */
export interface SocketAccess {
  /** Makes it the socket of one identity: callers are allowed that identity, and `default` means it. */
  readonly identity?: SpiffeId
  /** SPIFFE IDs in which `*` stands for one path segment and `**` at the end for the rest. Default: none. */
  readonly allow?: readonly string[]
  /** If given, other callers are refused. A caller is allowed what both its rule and the socket allow. */
  readonly callers?: readonly CallerRule[] | undefined
  /** Whether an allowed identity that is not held is issued when a caller asks for it. Default: false. */
  readonly onDemand?: boolean
}

/** The access rules of one socket. */
export class AccessPolicy {
  /** Whether the rules differ by caller, so that its credentials must be read. */
  readonly needsCredentials: boolean
  readonly #socket: readonly SpiffePattern[]
  readonly #callers: readonly { readonly rule: CallerRule; readonly allow: readonly SpiffePattern[] | undefined }[]
  readonly #grants: GrantContext
  /** The permission of every caller, where there are no rules for callers. */
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

  /** The permission of a caller, or `undefined` if no rule lets it in. */
  admit(caller: PeerCredentials | undefined): Permission | undefined {
    if (!this.needsCredentials) return this.#everybody
    const rules = this.#callers.filter(({ rule }) => caller && isCaller(rule, caller))
    if (rules.length === 0) return undefined
    const own = rules.flatMap(({ allow }) => allow ?? this.#socket)
    return new Permission(this.#grants, this.#socket.length > 0 ? [own, this.#socket] : [own])
  }

  /** The identities known now that anybody is allowed here, and possibly others. */
  known(): ReadonlySet<SpiffeId> {
    const { source } = this.#grants
    const named = this.#socket.flatMap(pattern => (pattern.kind === 'literal' ? [pattern.identity] : []))
    // A socket of one identity does not need to look at the thousands of others.
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
