/** The names that one caller is allowed on a socket, and their meaning for it. */
import { matchesSpiffePattern, type SecretName } from '@livery/core'
import { type SpiffeId, trustDomainOf } from '@livery/core/plugin'
import { checkCount } from '../protocol/request-codec.ts'
import { parseResourceName, type ResourceNames } from '../protocol/resource-name.ts'
import type { NameBudget, Resolution, SecretSource, SecretView } from '../protocol/secret-source.ts'
import type { AllowRules } from './allow-rules.ts'
import type { CallerFacts } from './caller-directory.ts'
import { allowsFiles, resolveFiles } from './file-permission.ts'

/** The common part of all permissions on one socket. */
export interface GrantContext {
  readonly source: SecretSource
  readonly names: ResourceNames
  readonly onDemand: boolean
}

const NO_IDENTITY = {
  'too-many': {
    kind: 'unknown',
    reason: 'too many identities are kept for this caller: see limits.perCaller.identities',
  },
  // A reported removal would make a peer drop a certificate from before a restart of the agent.
  'too-fast': {
    kind: 'postponed',
    reason:
      'this caller asks for new identities faster than limits.perCaller.identitiesPerMinute: this one waits for its turn',
  },
} as const

type IdentityName = Extract<SecretName, { readonly kind: 'identity' }>

/** The names that one caller is allowed. */
export class Permission implements SecretView {
  readonly #context: GrantContext
  readonly #layers: readonly AllowRules[]
  readonly #caller: CallerFacts | undefined

  /** An identity, or files, are allowed if a pattern of every layer matches. `caller`: whose identity `default` means. */
  constructor(context: GrantContext, layers: readonly AllowRules[], caller?: CallerFacts) {
    this.#context = context
    this.#layers = layers
    this.#caller = caller
  }

  resolve(name: string, budget: NameBudget): Resolution {
    const parsed = parseResourceName(name, this.#context.names)
    switch (parsed.kind) {
      case 'own-identity': {
        const own = this.#ownIdentity()
        return own.kind === 'refused' ? own : this.#identity(own, budget)
      }
      case 'own-bundle':
        return this.#bundle(this.#context.source.trustDomain)
      case 'all-bundles':
        return { kind: 'granted', secret: { kind: 'all-bundles', ...this.#rootsIdentity() } }
      case 'identity':
        return this.#identity(parsed, budget)
      case 'bundle':
        return this.#bundle(parsed.trustDomain)
      case 'unknown':
        return { kind: 'refused', reason: parsed.reason }
      default:
        return resolveFiles(parsed, this.#context.source, this.#layers, this.#caller?.pod, budget)
    }
  }

  everything(limit: number): readonly string[] {
    const { source } = this.#context
    const names = Array.from(source.trustDomains(), trustDomain => `spiffe://${trustDomain}`)
    for (const identity of source.identities()) if (this.#allows(identity)) names.push(identity)
    checkCount(names.length, limit)
    return names
  }

  ownIdentities(): readonly SpiffeId[] {
    const { source, onDemand } = this.#context
    const isKnown = (identity: SpiffeId) => source.knows({ kind: 'identity', identity })
    const known = this.#caller ? [] : [...this.#named()].filter(isKnown)
    if (known.length > 0) return known
    const own = this.#ownIdentity()
    if (own.kind === 'refused') return []
    // An identity that was chosen for the caller is its own even before the source knows it.
    const isOwn = this.#caller ? this.#allows(own.identity) : onDemand || isKnown(own.identity)
    return isOwn ? [own.identity] : []
  }

  mayHave(secret: SecretName): boolean {
    if (secret.kind === 'identity') return this.#allows(secret.identity)
    if (secret.kind !== 'bundle' && secret.kind !== 'all-bundles')
      return allowsFiles(secret, this.#layers, this.#caller?.pod)
    return secret.identity === undefined || this.#allows(secret.identity)
  }

  #allows(identity: SpiffeId): boolean {
    return this.#layers.every(({ identities }) => identities.some(pattern => matchesSpiffePattern(pattern, identity)))
  }

  #identity(secret: IdentityName, budget: NameBudget): Resolution {
    const { identity } = secret
    if (!this.#allows(identity)) {
      return { kind: 'refused', reason: 'this caller is not allowed it: see allow and callers of this socket' }
    }
    const { source, onDemand } = this.#context
    if (!source.knows(secret)) {
      if (!onDemand) {
        return {
          kind: 'unknown',
          secret,
          reason: 'no such identity is configured, and this socket has no onDemand',
        }
      }
      const isHeld = (each: SpiffeId) => source.knows({ kind: 'identity', identity: each })
      const taken = budget.takeIdentity(identity, isHeld)
      if (taken !== 'granted') return { ...NO_IDENTITY[taken], secret }
    }
    return { kind: 'granted', secret }
  }

  #bundle(trustDomain: string): Resolution {
    const { source } = this.#context
    if (trustDomain === source.trustDomain)
      return { kind: 'granted', secret: { kind: 'bundle', trustDomain, ...this.#rootsIdentity() } }
    const secret = { kind: 'bundle', trustDomain } as const
    if (source.knows(secret)) return { kind: 'granted', secret }
    return { kind: 'unknown', secret, reason: 'this agent has no bundle of that trust domain' }
  }

  /** The identity that `default` means, or the reason why it means none. */
  #ownIdentity(): IdentityName | Extract<Resolution, { readonly kind: 'refused' }> {
    const { names, onDemand } = this.#context
    const refused = (reason: string) => ({ kind: 'refused', reason: `"${names.default}" ${reason}` }) as const
    if (this.#caller) {
      const { identity } = this.#caller
      if (identity !== undefined) return { kind: 'identity', identity }
      return refused('has no meaning for this caller: it was identified, and no identity was chosen for it')
    }
    const identities = this.#firstAllowed()
    const [only] = identities
    // Patterns on demand allow identities that nobody has asked for yet: then a single known one is not unique.
    const isOpen = onDemand && !this.#isNamed()
    if (only && identities.size === 1 && !isOpen) return { kind: 'identity', identity: only }
    const why =
      only || isOpen
        ? 'this caller is allowed more than one identity: ask by SPIFFE ID, or give the workload its own socket'
        : 'this caller is allowed no identity: see allow and callers of this socket, and identities'
    return refused(`has no single meaning here, because ${why}`)
  }

  /** The caller's own identity, or the only one that the rules name, without patterns: it can have its own roots. */
  #rootsIdentity(): { readonly identity?: SpiffeId } {
    const [only, ...others] = this.#caller ? [this.#caller.identity] : this.#isNamed() ? this.#named() : []
    if (only === undefined || others.length > 0) return {}
    return trustDomainOf(only) === this.#context.source.trustDomain ? { identity: only } : {}
  }

  #named(): Set<SpiffeId> {
    const found = new Set<SpiffeId>()
    for (const pattern of this.#layers.flatMap(({ identities }) => identities)) {
      if (pattern.kind === 'literal' && this.#allows(pattern.identity)) found.add(pattern.identity)
    }
    return found
  }

  /** Whether a layer names identities only, without patterns: it allows no others. */
  #isNamed(): boolean {
    return this.#layers.some(({ identities }) => identities.every(pattern => pattern.kind === 'literal'))
  }

  /** Up to two identities that the caller is allowed, to see whether there is exactly one. */
  #firstAllowed(): ReadonlySet<SpiffeId> {
    const found = this.#named()
    for (const identity of this.#isNamed() ? [] : this.#context.source.identities()) {
      if (found.size > 1) break
      if (this.#allows(identity)) found.add(identity)
    }
    return found
  }
}
