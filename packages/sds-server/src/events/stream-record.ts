/** What is reported of one stream or fetch: its events, and its peer in words. */
import type { Events } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { CallMethod, ConnectionInfo, SdsEvent, StreamInfo } from './sds-event.ts'

interface RecordContext {
  readonly clock: Clock
  readonly events: Events<SdsEvent>
  nextId(): number
}

export class StreamRecord {
  readonly #events: Events<SdsEvent>
  readonly #stream: { readonly nodeId: string }
  readonly #names: { readonly size: number }
  /** Updated in place. */
  readonly #info: { -readonly [K in keyof StreamInfo]: StreamInfo[K] }
  #peer = ''

  /** Reports that the stream is open. */
  constructor(
    method: CallMethod,
    { clock, events, nextId }: RecordContext,
    connection: ConnectionInfo,
    stream: { readonly nodeId: string },
    names: { readonly size: number },
  ) {
    this.#events = events
    this.#stream = stream
    this.#names = names
    this.#info = { id: nextId(), method, connection, node: '', names: 0, openedAt: clock.now() }
    events.emit({ kind: 'stream-opened', stream: this.info })
  }

  /** Always the same object, as it is now. */
  get info(): StreamInfo {
    this.#info.node = this.#stream.nodeId
    this.#info.names = this.#names.size
    return this.#info
  }

  describePeer(): string {
    return describePeer(this.info)
  }

  report(report: StreamReport): void {
    const stream = this.info
    if (this.#peer === '') this.#peer = describePeer(stream)
    this.#events.emit({ kind: 'stream-report', stream, report, peer: this.#peer })
  }

  /** Reports a bug; a `StreamRefusal` is none. */
  failed(error: unknown): void {
    if (!(error instanceof StreamRefusal)) this.#events.emit({ kind: 'stream-failed', stream: this.info, error })
  }

  closed({ code: status, details }: { readonly code: number; readonly details: string }): void {
    this.#events.emit({ kind: 'stream-closed', stream: this.info, status, details })
  }
}

function describePeer({ node, connection }: StreamInfo): string {
  const { socket, caller, subject } = connection
  const who = node === '' ? 'a caller' : `node "${node}"`
  const credentials = caller ? ` (pid ${caller.pid}, uid ${caller.uid}${subject ? `, ${subject}` : ''})` : ''
  return `${who}${credentials} on ${socket}`
}
