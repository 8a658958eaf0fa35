/** The events of the log: those beside secrets and sockets, the scope of each, and which are written at every level. docs/logs.md lists all. */

import type { LogScope } from '../schema/log-level.ts'
import type { LedgerEvent } from './ledger.ts'
import type { Level } from './log-rate.ts'

/** Events of the admin and health endpoints: one does not listen, or does again; somebody changed something, or was refused. */
export const ADMIN_LEVELS = {
  'endpoint-waiting': 'error',
  'endpoint-handover': 'info',
  'endpoint-acquired': 'info',
  'log-level-changed': 'info',
  'log-level-refused': 'warn',
  'renewal-requested': 'info',
  'renewal-refused': 'warn',
  'root-change': 'info',
  'root-change-refused': 'warn',
} as const satisfies Readonly<Record<string, Level>>

export type AdminEvent = keyof typeof ADMIN_LEVELS

/** Events of the pods of this node. */
export const POD_EVENTS = [
  'pods-unknown',
  'pods-known',
  'pods-away',
  'pod-added',
  'pod-changed',
  'pod-removed',
  'pod-refused',
] as const

export type PodEvent = (typeof POD_EVENTS)[number]

const LEDGER_SCOPES: Readonly<Record<LedgerEvent['kind'], LogScope>> = {
  'csr-sent': 'ca',
  issued: 'ca',
  'ca-error': 'ca',
  'ca-down': 'ca',
  'ca-back': 'ca',
  'shared-failure': 'ca',
  'shared-failure-over': 'ca',
  'ttl-lowered': 'ca',
  'retry-planned': 'scheduler',
  held: 'scheduler',
  'clock-jumped': 'scheduler',
  withdrawn: 'scheduler',
  removed: 'scheduler',
  kept: 'scheduler',
  'no-room': 'scheduler',
  restored: 'store',
  'not-restored': 'store',
  'not-stored': 'store',
  'preflight-failed': 'trust',
  revoked: 'trust',
  'roots-changed': 'trust',
  'root-phase': 'trust',
  'roots-rejected': 'trust',
  'roots-unavailable': 'trust',
  'crl-changed': 'trust',
  'crl-unavailable': 'trust',
  'read-from-files': 'files',
  'files-unusable': 'files',
  ending: 'files',
  asked: 'sds',
  refused: 'sds',
  pushed: 'sds',
  acked: 'sds',
  nacked: 'sds',
}

const SCOPES: ReadonlyMap<string, LogScope> = new Map([
  ...Object.entries(LEDGER_SCOPES),
  ...Object.keys(ADMIN_LEVELS).map((kind): [string, LogScope] => [kind, 'admin']),
  ...POD_EVENTS.map((kind): [string, LogScope] => [kind, 'kubernetes']),
])

/** The scope of a kind of events: `sds` for all of the SDS server. */
export function scopeOf(kind: string): LogScope {
  return SCOPES.get(kind) ?? 'sds'
}

/** Events of an attack, of a peer or a CA that does not get what it wants, or of a change in who is trusted. */
const SECURITY_KINDS: ReadonlySet<string> = new Set([
  'connection-refused',
  'stream-refused',
  'caller-slowed',
  'socket-waiting',
  'socket-superseded',
  'socket-reclaimed',
  'socket-folder-unsafe',
  'socket-lost',
  'refused',
  'no-room',
  'nacked',
  'not-restored',
  'roots-changed',
  'root-phase',
  'preflight-failed',
  'revoked',
  'crl-changed',
  'crl-unavailable',
  'roots-rejected',
  'roots-unavailable',
  ...Object.keys(ADMIN_LEVELS),
])

/** Whether a kind of event is written at every log level. A CA's answer that was refused is one by its code. */
export function isSecurityEvent(kind: string, code?: string): boolean {
  return SECURITY_KINDS.has(kind) || (kind === 'ca-error' && code === 'bad-response')
}
