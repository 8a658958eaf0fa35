/** What happened on a stream, as the ledger keeps it for `livery explain`. */
import type { LedgerEvent } from '@livery/core'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import type { StreamInfo } from './sds-event.ts'

/** What is about a secret with a name. */
type RecordedReport = Extract<StreamReport, { readonly name: string }>

/** `peer` as `describePeer` has it. */
export function toLedgerEvent(report: RecordedReport, peer: string): LedgerEvent {
  switch (report.kind) {
    case 'asked':
      return { kind: 'asked', by: peer }
    case 'refused':
      return { kind: 'refused', by: peer, reason: report.reason }
    case 'pushed':
      return { kind: 'pushed', to: peer, version: report.version }
    case 'acked':
      return { kind: 'acked', by: peer, version: report.version }
    case 'nacked':
      return { kind: 'nacked', by: peer, version: report.version, detail: report.detail }
  }
}

/** Who is at the other end of a stream, for people. */
export function describePeer({ node, connection }: StreamInfo): string {
  const { socket, caller } = connection
  const who = node === '' ? 'a caller' : `node "${node}"`
  const credentials = caller ? ` (pid ${caller.pid}, uid ${caller.uid})` : ''
  return `${who}${credentials} on ${socket}`
}
