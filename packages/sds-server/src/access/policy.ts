/** The access rules of one socket: path patterns for every caller, and rules for callers by SO_PEERCRED and by their facts. */
import type { PeerCredentials } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { ResourceNames } from '../protocol/resource-name.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import { SdsServerError } from '../socket/sds-server-error.ts'
import { type AllowRules, anyOf, isEmpty, parseAllow } from './allow-rules.ts'
import type { CallerFacts } from './caller-directory.ts'
import { type GrantContext, Permission } from './permission.ts'

/** Admits a caller that matches every given field. */
export interface CallerRule {
  readonly uid?: number | undefined
  /** The primary group of the process that connected. */
  readonly gid?: number | undefined
  /** The caller has every one of these, such as `ns:default`. Only on a socket with `identify`. */
  readonly selectors?: readonly string[] | undefined
  /** The patterns that this caller is allowed. Default: the socket's. */
  readonly allow?: readonly string[] | undefined
}

/** The rules of a socket. Every caller that is let in is allowed every trust bundle, and the roots of the system. */
export interface SocketAccess {
  /** Makes it the socket of one identity: callers are allowed that identity, and `default` means it. */
  readonly identity?: SpiffeId
  /**
   * SPIFFE IDs in which `*` stands for one path segment and `**` at the end for the rest, and names of files, such as
   * `file-cert:/etc/certs/*`: a caller gets the keys in the files that it may name. The socket of one identity takes names
   * of files only. Default: none.
   */
  readonly allow?: readonly string[] | undefined
  /** If given, other callers are refused. A caller is allowed what both its rule and the socket allow. */
  readonly callers?: readonly CallerRule[] | undefined
  /**
   * Whether callers are identified by the `CallerDirectory`; one that is not known there is refused. On a shared socket
   * each is then allowed its own identity, which `default` means, and beside it what `allow` says. Default: false.
   */
  readonly identify?: boolean | undefined
  /** Whether an allowed identity that is not kept is issued when a caller asks for it. Default: false. */
  readonly onDemand?: boolean
}

/** The access rules of one socket. */
export class AccessPolicy {
  /** Whether the rules differ by caller, so that its credentials must be read. */
  readonly needsCredentials: boolean
  /** Whether callers are to be identified. */
  readonly identifies: boolean
  readonly #isShared: boolean
  readonly #hasRules: boolean
  readonly #socket: AllowRules
  readonly #callers: readonly { readonly rule: CallerRule; readonly allow: AllowRules | undefined }[]
  readonly #grants: GrantContext
  /** The permission of every caller, where there are no rules for callers. */
  readonly #everybody: Permission

  /** Throws an `SdsServerError` (`invalid-config`) that names the pattern or rule that cannot work. */
  constructor(access: SocketAccess, source: SecretSource, names: ResourceNames) {
    const allow = parseAllow(access.allow ?? [])
    if (access.identity && allow.identities.length > 0) {
      throw new SdsServerError(
        'invalid-config',
        `Cannot allow other identities on the socket of one identity (${access.identity}): leave out identity or these entries of allow`,
      )
    }
    this.#grants = { source, names, onDemand: access.onDemand ?? false }
    this.#socket = access.identity ? anyOf([parseAllow([access.identity]), allow]) : allow
    this.#callers = (access.callers ?? []).map(rule => ({
      rule: checkRule(rule, access.identify ?? false),
      allow: rule.allow && parseAllow(rule.allow),
    }))
    this.#everybody = new Permission(this.#grants, [this.#socket])
    this.#hasRules = access.callers !== undefined
    this.#isShared = access.identity === undefined
    this.identifies = access.identify ?? false
    this.needsCredentials = this.#hasRules || this.identifies
  }

  /** The permission of a caller, or `undefined` if no rule admits it. `facts`: given if callers are identified. */
  admit(caller: PeerCredentials | undefined, facts?: CallerFacts): Permission | undefined {
    if (this.identifies && !facts) return undefined
    if (!this.needsCredentials) return this.#everybody
    const layers = this.#layersOf(caller, facts)
    if (!layers) return undefined
    if (!facts || !this.#isShared) return new Permission(this.#grants, layers)
    const own = parseAllow(facts.identity === undefined ? [] : [facts.identity])
    return new Permission(
      this.#grants,
      layers.map(layer => anyOf([own, layer])),
      facts,
    )
  }

  #layersOf(caller: PeerCredentials | undefined, facts: CallerFacts | undefined): readonly AllowRules[] | undefined {
    if (!this.#hasRules) return [this.#socket]
    const rules = this.#callers.filter(({ rule }) => caller && isCaller(rule, caller, facts))
    if (rules.length === 0) return undefined
    const own = anyOf(rules.map(({ allow }) => allow ?? this.#socket))
    return isEmpty(this.#socket) ? [own] : [own, this.#socket]
  }

  /** The identities known now that anybody is allowed here, and possibly others. */
  known(): ReadonlySet<SpiffeId> {
    const { source } = this.#grants
    const { identities } = this.#socket
    const named = identities.flatMap(pattern => (pattern.kind === 'literal' ? [pattern.identity] : []))
    // A socket of one identity does not need to look at the thousands of others.
    if (named.length === 0 || named.length < identities.length) return new Set(source.identities())
    return new Set(named.filter(identity => source.knows({ kind: 'identity', identity })))
  }
}

function checkRule(rule: CallerRule, identifies: boolean): CallerRule {
  const { uid, gid, selectors = [] } = rule
  if (selectors.length > 0 && !identifies)
    throw new SdsServerError(
      'invalid-config',
      `Cannot use the selectors ${selectors.join(', ')} in callers: this socket does not identify callers; set identify`,
    )
  if (uid !== undefined || gid !== undefined || selectors.length > 0) return rule
  throw new SdsServerError(
    'invalid-config',
    'Cannot use a rule in callers that has no uid, gid or selector: it would let in everybody',
  )
}

function isCaller(rule: CallerRule, caller: PeerCredentials, facts: CallerFacts | undefined): boolean {
  if ((rule.uid ?? caller.uid) !== caller.uid || (rule.gid ?? caller.gid) !== caller.gid) return false
  return rule.selectors?.every(selector => facts?.selectors.has(selector)) ?? true
}
