/** Whether the agent serves what it is configured for, and if not, what it waits for. */
import type { IdentityEntry } from '@livery/core'

/** Where the agent is in its life. */
export type Phase = 'starting' | 'serving' | 'draining'

/** A socket as the SDS server sees it. */
export interface SocketStatus {
  readonly path: string
  /** `superseded`: another process serves the path now, and this one the connections that it had. */
  readonly state: 'listening' | 'superseded' | 'closed'
}

export interface Readiness {
  readonly ready: boolean
  /** Why it is not ready, a line each; empty when it is. */
  readonly waitingFor: readonly string[]
  /** Identities without a valid certificate that do not count (yet), a line each. */
  readonly tolerated: readonly string[]
}

/** How long a new identity may be without a certificate before that counts. */
export const GRACE_MS = 60_000

/**
 * Ready means: sockets bound, and no identity without a valid certificate. An identity in its first minute, or one
 * that the CA fails for, does not count (a CA outage must not take every agent out of service) unless `strict`. One that
 * needs none, since it is idle or removed, never does.
 */
export function readiness(input: {
  readonly phase: Phase
  readonly sockets: readonly SocketStatus[]
  readonly entries: readonly IdentityEntry[]
  readonly now: number
  readonly strict: boolean
}): Readiness {
  const { phase, sockets, entries, now, strict } = input
  const waitingFor: string[] = []
  const tolerated: string[] = []
  if (phase === 'starting') waitingFor.push('the sockets to be bound')
  if (phase === 'draining') waitingFor.push('nothing: it is shutting down')
  for (const { path, state } of phase === 'serving' ? sockets : []) {
    if (state !== 'listening') waitingFor.push(`socket ${path}: ${state}`)
  }
  for (const entry of entries) {
    if (hasValidCertificate(entry, now) || entry.state === 'idle' || entry.hold === 'removed') continue
    const { excuse, text } = describeMissing(entry, now)
    ;(excuse && !strict ? tolerated : waitingFor).push(`${entry.identity}: ${text}`)
  }
  return { ready: waitingFor.length === 0, waitingFor, tolerated }
}

export function hasValidCertificate({ secret }: IdentityEntry, now: number): boolean {
  return secret !== undefined && secret.notBefore <= now && now < secret.notAfter
}

function describeMissing(entry: IdentityEntry, now: number): { readonly excuse: boolean; readonly text: string } {
  const { lastFailure } = entry
  if (lastFailure) return { excuse: true, text: `the CA fails (${lastFailure.code}): ${lastFailure.message}` }
  const excuse = now - entry.addedAt < GRACE_MS
  return { excuse, text: excuse ? 'its first certificate is on the way' : 'no certificate after its first minute' }
}

const LINES = 100

/** Plain text for people and probes: the verdict first, then up to 100 lines of each list. */
export function readinessText({ ready, waitingFor, tolerated }: Readiness): string {
  const lines = [ready ? 'ready' : 'not ready']
  if (!ready) lines.push(...section('waiting for', waitingFor))
  if (tolerated.length > 0) lines.push(...section('without a certificate, not counted', tolerated))
  return `${lines.join('\n')}\n`
}

function section(title: string, items: readonly string[]): string[] {
  const shown = items.slice(0, LINES).map(item => `  ${item}`)
  return [`${title}:`, ...shown, ...(items.length > LINES ? [`  and ${items.length - LINES} more`] : [])]
}
