/** An identity as the manager reports it. */

import type { IdentityEntry, IdentityState } from '../identity/identity-entry.ts'
import { type Identity, usable } from './identity.ts'

/** `nextProbeAt`: when a queue that waits for a CA that is down moves on. */
export function toEntry(identity: Identity, now: number, nextProbeAt: number | undefined): IdentityEntry {
  const issued = usable(identity, now)
  return {
    identity: identity.id,
    state: stateOf(identity, now),
    hold: identity.keep.kind,
    secret: issued?.secret,
    root: issued?.root,
    receivedAt: issued?.source === 'bootstrap' ? undefined : issued?.receivedAt,
    addedAt: identity.addedAt,
    renewAt: renewAt(identity, nextProbeAt),
    lastSuccessAt: identity.lastSuccessAt,
    ...failureOf(identity, now),
    preflight: preflightOf(identity, now),
  }
}

function stateOf(identity: Identity, now: number): IdentityState {
  const { work, health, current, hasExpired } = identity
  if (work.kind === 'idle' || work.kind === 'forgotten') return work.kind
  const isUsable = usable(identity, now) !== undefined
  if (hasExpired || (current && !isUsable)) return 'expired'
  if (health.kind === 'failing' || revocationOf(identity, now)) return 'failing'
  if (!isUsable) return 'initializing'
  return work.kind === 'queued' || work.kind === 'fetching' ? 'renewing' : 'available'
}

function renewAt({ work }: Identity, nextProbeAt: number | undefined): number | undefined {
  if (work.kind === 'waiting') return work.due
  return work.kind === 'queued' ? nextProbeAt : undefined
}

function revocationOf(identity: Identity, now: number): Identity['revoked'] {
  return usable(identity, now) && identity.revoked
}

/** The revocation of the certificate in use comes first, whatever the CA says meanwhile. */
function failureOf(identity: Identity, now: number): Pick<IdentityEntry, 'lastFailure' | 'failingSince'> {
  const { health, lastFailure } = identity
  const failingSince = health.kind === 'failing' ? health.since : undefined
  const revocation = revocationOf(identity, now)
  if (!revocation) return { lastFailure, failingSince }
  const isNewer = failingSince !== undefined && lastFailure && lastFailure.at >= revocation.since
  const attempt = isNewer ? `. The last attempt to replace it failed (${lastFailure.code}): ${lastFailure.message}` : ''
  const message = `peers refuse the certificate in use: ${revocation.reason}${attempt}`
  return {
    lastFailure: { at: isNewer ? lastFailure.at : revocation.since, code: 'revoked', message },
    failingSince: Math.min(revocation.since, failingSince ?? revocation.since),
  }
}

function preflightOf(identity: Identity, now: number): IdentityEntry['preflight'] {
  const reason = usable(identity, now)?.clientRefusal
  if (reason !== undefined) return { reason, isServed: true }
  return identity.withheld === undefined ? undefined : { reason: identity.withheld, isServed: false }
}
