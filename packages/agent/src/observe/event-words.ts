/** Parts of the sentences and the fields of events. */
import type { ConnectionInfo, StreamInfo } from '@livery/sds-server'
import type { EventOf } from './agent-event.ts'

export const REASONS = {
  first: 'the first',
  renewal: 'renewal is due',
  'on-demand': 'asked for on demand',
  'new-root': 'the CA has a new root',
  'new-wish': 'its configuration has changed',
  'ca-changed': 'the CA reports a change',
  revoked: 'the one in use, or its root, is revoked',
  operator: 'an operator asked',
} as const

export const JUMPED = {
  forward: 'the machine slept, or its clock was set ahead, by',
  back: 'the clock was set back by',
  stopped: 'this process did not run for',
} as const

export const RESTORED = {
  store: 'taken from the store, as the previous process left it',
  bootstrap: 'the bootstrap pair is served until the CA answers',
} as const

export const WITHDRAWN = {
  expired: 'it expired before a new one came',
  forgotten: 'no longer wanted',
  idle: 'nobody has used it for a while',
  evicted: 'unused, and its room was needed for another',
  deleted: 'its Secret was deleted',
} as const

export const PHASES = {
  announcing: 'is announced',
  held: 'is held',
  trusted: 'is trusted: certificates under it are served',
  retiring: 'is retiring',
  removed: 'was removed',
} as const

export const LATER = {
  'not-yet-valid': 'its notBefore is ahead of this clock',
  'root-announcing': 'its new root is announced, and clients have to know it first',
} as const

export const REFUSED = {
  'not-allowed': 'no rule under callers lets this caller in',
  'too-many-connections': 'the caller holds its share of limits.connections of the socket',
  'too-many-of-caller': 'the caller has reached limits.perCaller of the socket',
  'too-many-in-process': 'the process has no room left, and the caller holds its share of it',
  'caller-held': 'the caller exceeded a rate of the socket, and is refused for some seconds',
  'unreadable-credentials': 'its credentials cannot be read',
  unidentified: 'the caller cannot be identified',
  'unknown-caller': 'this caller was still unknown after 5 s',
} as const

export function describeUncovered([first, ...others]: readonly string[]): string {
  if (first === undefined) return ''
  const more = others.length > 0 ? ` and ${others.length} more` : ''
  return `; verifiers refuse all peers under the root ${short(first)}${more}, which has no list: add it to the file of crl under trust`
}

export function describeCertificate({ serialNumber, notAfter, renewAt }: EventOf<'issued' | 'restored'>): string {
  return `serial ${serialNumber}, valid until ${iso(notAfter)}, renewal planned for ${iso(renewAt)}`
}

export function describeFiles({ version, serialNumber, notAfter, skipped = 0 }: EventOf<'read-from-files'>): string {
  const parts = serialNumber === undefined ? [] : [`serial ${serialNumber}`]
  if (notAfter !== undefined) parts.push(`valid until ${iso(notAfter)}`)
  if (skipped > 0) parts.push(`${skipped} certificates cannot be parsed and are left out`)
  return [...parts, `version ${short(version)}`].join(', ')
}

export function describePod({ pod, identity = 'no identity' }: EventOf<'pod-added' | 'pod-changed'>): string {
  return `pod ${pod} has ${identity}`
}

export function connectionFields({ connection }: { readonly connection: ConnectionInfo }): object {
  const { id, socket, caller, subject } = connection
  return { connection: id, socket, ...caller, subject }
}

export function peerFields({ connection: { socket, caller } }: { readonly connection: ConnectionInfo }): object {
  return { socket, ...caller }
}

export function streamFields({ stream }: { readonly stream: StreamInfo }): object {
  const { id, method, connection, node, names } = stream
  return { stream: id, method, connection: connection.id, socket: connection.socket, node, names }
}

export function iso(time: number): string {
  return new Date(time).toISOString()
}

export function short(version: string): string {
  return version.slice(0, 12)
}
