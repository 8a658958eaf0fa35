/** Which identity is a caller's own: what `default` means for it, and whose roots `ROOTCA` has. */
import { type SpiffeId, trustDomainOf } from '@livery/core/plugin'
import type { ResourceNames } from '../protocol/resource-name.ts'
import type { SecretSource } from '../protocol/secret-source.ts'
import type { AllowRules } from './allow-rules.ts'
import type { CallerFacts } from './caller-directory.ts'

/** The common part of all permissions on one socket. */
export interface GrantContext {
  readonly source: SecretSource
  readonly names: ResourceNames
  readonly onDemand: boolean
}

/** What one caller is allowed. */
interface Allowed {
  readonly context: GrantContext
  readonly layers: readonly AllowRules[]
  /** Whose identity `default` means. */
  readonly caller: CallerFacts | undefined
  allows(identity: SpiffeId): boolean
}

/** The identity that `default` means, or the reason why it means none. */
export function ownIdentity(allowed: Allowed): { readonly identity: SpiffeId } | { readonly reason: string } {
  const { caller, context } = allowed
  const name = `"${context.names.default}"`
  if (caller) {
    const { identity } = caller
    if (identity !== undefined) return { identity }
    return { reason: `${name} has no meaning for this caller: it was identified, and no identity was chosen for it` }
  }
  const identities = firstAllowed(allowed)
  const [only] = identities
  const isUnsure = isOpen(allowed)
  if (only && identities.size === 1 && !isUnsure) return { identity: only }
  const why =
    only || isUnsure
      ? 'this caller is allowed more than one identity: ask by SPIFFE ID, or give the workload its own socket'
      : 'this caller is allowed no identity: see allow and callers of this socket, and identities'
  return { reason: `${name} has no single meaning here, because ${why}` }
}

/** See `SecretView`. */
export function ownIdentities(allowed: Allowed): readonly SpiffeId[] {
  const { caller, context } = allowed
  const { source, onDemand } = context
  // An identity that was chosen for the caller is its own even before the source knows it.
  if (caller) return [caller.identity ?? []].flat().filter(identity => allowed.allows(identity))
  const isKnown = (identity: SpiffeId) => source.knows({ kind: 'identity', identity })
  const known = [...named(allowed)].filter(isKnown)
  if (known.length > 0) return known
  const [only, ...others] = firstAllowed(allowed)
  return only && others.length === 0 && !isOpen(allowed) && (onDemand || isKnown(only)) ? [only] : []
}

/** The caller's own identity, or the only one that the rules name, without patterns: it can have its own roots. */
export function rootsIdentity(allowed: Allowed): { readonly identity?: SpiffeId } {
  const { caller, context } = allowed
  const [only, ...others] = caller ? [caller.identity] : isNamed(allowed) ? named(allowed) : []
  if (only === undefined || others.length > 0) return {}
  return trustDomainOf(only) === context.source.trustDomain ? { identity: only } : {}
}

function named(allowed: Allowed): Set<SpiffeId> {
  const found = new Set<SpiffeId>()
  for (const pattern of allowed.layers.flatMap(({ identities }) => identities)) {
    if (pattern.kind === 'literal' && allowed.allows(pattern.identity)) found.add(pattern.identity)
  }
  return found
}

/** Whether a layer names identities only, without patterns: it allows no others. */
function isNamed({ layers }: Allowed): boolean {
  return layers.some(({ identities }) => identities.every(pattern => pattern.kind === 'literal'))
}

/** Whether patterns on demand allow identities that nobody has asked for yet: then a single known one is not unique. */
function isOpen(allowed: Allowed): boolean {
  return allowed.context.onDemand && !isNamed(allowed)
}

/** Up to two identities that the caller is allowed, to see whether there is exactly one. */
function firstAllowed(allowed: Allowed): ReadonlySet<SpiffeId> {
  const found = named(allowed)
  for (const identity of isNamed(allowed) ? [] : allowed.context.source.identities()) {
    if (found.size > 1) break
    if (allowed.allows(identity)) found.add(identity)
  }
  return found
}
