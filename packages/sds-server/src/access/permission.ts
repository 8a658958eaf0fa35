/** Which names one caller is allowed on a socket, and what each of them means to it. */
import {
  matchesSpiffePattern,
  type SecretItem,
  type SecretName,
  type SpiffeId,
  type SpiffePattern,
  trustDomainOf,
  type Watch,
} from '@livery/core'
import { checkCount } from '../protocol/request-check.ts'
import { parseResourceName, type WellKnownNames } from '../protocol/resource-name.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { IdentityBudget, Resolution, SecretView } from '../protocol/subscriptions.ts'

/** What the permissions of one socket have in common. */
export interface GrantContext {
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
