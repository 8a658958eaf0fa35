/** What happened on a stream, as the ledger keeps it for `livery explain`. */
import type { LedgerEvent } from '@livery/core'
import type { StreamReport } from './discovery-protocol.ts'
import type { StreamInfo } from './sds-event.ts'

type RecordedReport = Exclude<StreamReport, { readonly kind: 'stale' }>

export function toLedgerEvent(report: RecordedReport, stream: StreamInfo): LedgerEvent {
  const peer = describePeer(stream)
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

/** Of streams that have told their node; every event of a stream names its peer. */
const described = new WeakMap<StreamInfo, string>()

function describePeer(stream: StreamInfo): string {
  const known = described.get(stream)
  if (known !== undefined) return known
  const { socket, caller } = stream.connection
  const who = stream.node === '' ? 'a caller' : `node "${stream.node}"`
  const credentials = caller ? ` (pid ${caller.pid}, uid ${caller.uid})` : ''
  const text = `${who}${credentials} on ${socket}`
  if (stream.node !== '') described.set(stream, text)
  return text
}
