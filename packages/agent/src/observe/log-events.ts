/** Which events the log has beside those of secrets and sockets, and which events are written at every level: docs/logs.md lists all. */

import type { Level } from './log-rate.ts'

/** Events of the admin endpoint: somebody changed something, or was refused. */
export const ADMIN_LEVELS = {
  'log-level-changed': 'info',
  'log-level-refused': 'warn',
  'renewal-requested': 'info',
  'renewal-refused': 'warn',
  'root-change': 'info',
  'root-change-refused': 'warn',
} as const satisfies Readonly<Record<string, Level>>

export type AdminEvent = keyof typeof ADMIN_LEVELS

/** An event of the pods of this node. */
export type PodEvent =
  | 'pods-unknown'
  | 'pods-known'
  | 'pods-away'
  | 'pod-added'
  | 'pod-changed'
  | 'pod-removed'
  | 'pod-refused'
  | 'pod-folder-failed'
  | 'pod-folder-kept'
  | 'pod-socket-failed'
  | 'volume-published'
  | 'volume-unpublished'
  | 'volume-failed'
  | 'csi-socket'

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
  'trial-rejected',
  'preflight-failed',
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
