/** Who may have which secret on a socket: path patterns for everybody, and rules for callers by SO_PEERCRED. */
import {
  isSpiffeId,
  matchesSpiffePattern,
  type PeerCredentials,
  parseSpiffePattern,
  type SecretItem,
  type SecretName,
  type SpiffeId,
  type SpiffePattern,
  spiffePatternProblem,
  trustDomainOf,
  type Watch,
} from '@livery/core'
import { checkCount } from '../protocol/request-check.ts'
import { parseResourceName, type WellKnownNames } from '../protocol/resource-name.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { IdentityBudget, Resolution, SecretView } from '../protocol/subscriptions.ts'
import { SdsServerError } from '../socket/sds-server-error.ts'

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

interface GrantContext {
  readonly source: SecretSource
  readonly names: WellKnownNames
  readonly onDemand: boolean
}

/** What one caller may have. */
export class Permission implements SecretView {
  readonly #context: GrantContext
  readonly #layers: readonly (readonly SpiffePattern[])[]

  /** An identity is allowed if a pattern of every layer matches it. */
  constructor(context: GrantContext, layers: readonly (readonly SpiffePattern[])[]) {
    this.#context = context
    this.#layers = layers
  }

  /** Decides on a name; where identities are served on demand, one that nobody holds takes from `budget`. */
  resolve(name: string, budget: IdentityBudget): Resolution {
    const parsed = parseResourceName(name, this.#context.names)
    switch (parsed.kind) {
      case 'own-identity':
        return this.#ownIdentity(budget)
      case 'own-bundle':
        return { kind: 'granted', secret: this.#ownBundle() }
      case 'identity':
        return this.#identity(parsed.identity, budget)
      case 'bundle':
        return this.#bundle(parsed.trustDomain)
      case 'unknown':
        return { kind: 'refused', reason: parsed.reason }
    }
  }

  /** The names of all that the caller may have, the bundle first; throws a `StreamRefusal` if they are over `limit`. */
  everything(limit: number): readonly string[] {
    const { source } = this.#context
    const names = [`spiffe://${source.trustDomain}`]
    for (const identity of source.identities()) if (this.#allows(identity)) names.push(identity)
    checkCount(names.length, limit)
    return names
  }

  mayHave(secret: SecretName): boolean {
    return secret.identity === undefined || this.#allows(secret.identity)
  }

  watch(secret: SecretName, listener: (item: SecretItem | undefined) => void): Watch {
    return this.#context.source.watch(secret, listener)
  }

  #allows(identity: SpiffeId): boolean {
    return this.#layers.every(patterns => patterns.some(pattern => matchesSpiffePattern(pattern, identity)))
  }

  #identity(identity: SpiffeId, budget: IdentityBudget): Resolution {
    if (!this.#allows(identity)) {
      return { kind: 'refused', reason: "this caller may not have it: see this socket's allow and callers" }
    }
    const { source, onDemand } = this.#context
    const secret = { kind: 'identity', identity } as const
    if (!source.knows(secret)) {
      if (!onDemand) {
        return {
          kind: 'unknown',
          secret,
          reason: 'no such identity is configured, and this socket issues none on demand',
        }
      }
      const isHeld = (each: SpiffeId) => source.knows({ kind: 'identity', identity: each })
      if (!budget.takeIdentity(identity, isHeld)) {
        const reason =
          'this caller has had too many identities issued: see limits.perCaller.identities and .identitiesPerMinute'
        return { kind: 'unknown', secret, reason }
      }
    }
    return { kind: 'granted', secret }
  }

  #bundle(trustDomain: string): Resolution {
    const { source } = this.#context
    if (trustDomain === source.trustDomain) return { kind: 'granted', secret: this.#ownBundle() }
    const secret = { kind: 'bundle', trustDomain } as const
    if (source.knows(secret)) return { kind: 'granted', secret }
    return { kind: 'unknown', secret, reason: 'no bundle of that trust domain is held' }
  }

  /** As its one identity sees it, where the rules name one and no pattern: that one may have roots of its own. */
  #ownBundle(): SecretName {
    const { trustDomain } = this.#context.source
    const [only, ...others] = this.#isNamed() ? this.#named() : []
    if (only === undefined || others.length > 0 || trustDomainOf(only) !== trustDomain)
      return { kind: 'bundle', trustDomain }
    return { kind: 'bundle', trustDomain, identity: only }
  }

  #named(): Set<SpiffeId> {
    const named = new Set<SpiffeId>()
    for (const pattern of this.#layers.flat()) {
      if (pattern.kind === 'literal' && this.#allows(pattern.identity)) named.add(pattern.identity)
    }
    return named
  }

  /** A layer that only names identities allows no others, however many there are. */
  #isNamed(): boolean {
    return this.#layers.some(patterns => patterns.every(pattern => pattern.kind === 'literal'))
  }

  #ownIdentity(budget: IdentityBudget): Resolution {
    const { source, names } = this.#context
    const allowed = this.#named()
    for (const identity of this.#isNamed() ? [] : source.identities()) {
      if (allowed.size > 1) break
      if (this.#allows(identity)) allowed.add(identity)
    }
    const [only] = allowed
    if (only && allowed.size === 1) return this.#identity(only, budget)
    const reason = only ? 'more than one identity' : 'no identity'
    return {
      kind: 'refused',
      reason: `this caller may have ${reason} here: ask by SPIFFE ID, or give the workload a socket of its own instead of "${names.default}"`,
    }
  }
}

/** What a caller may have while its socket goes: what was granted before, as it changes, and nothing more. */
export class LastPermission implements SecretView {
  readonly #before: SecretView
  readonly #known: ReadonlySet<SpiffeId>

  /** `known`: the identities that were known until now; one that comes later was granted to nobody. */
  constructor(before: SecretView, known: ReadonlySet<SpiffeId>) {
    this.#before = before
    this.#known = known
  }

  /** Throws nothing: it may be asked while the source tells of a change. */
  resolve(): Resolution {
    return { kind: 'refused', reason: 'this socket is going: connect again' }
  }

  everything(): never {
    throw new StreamRefusal('unavailable', 'this socket is going: connect again')
  }

  mayHave(secret: SecretName): boolean {
    return this.#before.mayHave(secret) && (secret.kind === 'bundle' || this.#known.has(secret.identity))
  }

  watch(secret: SecretName, listener: (item: SecretItem | undefined) => void): Watch {
    return this.#before.watch(secret, listener)
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
