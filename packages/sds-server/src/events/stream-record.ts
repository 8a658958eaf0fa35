/** What is reported of one stream or fetch: its events, and its peer in words. */
import type { Events } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import type { CallerBudget } from '../budget/caller-budget.ts'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { CallMethod, ConnectionInfo, SdsEvent, StreamInfo } from './sds-event.ts'

/** Characters of a peer's texts that the cost of a stream includes. */
const FREE_TEXT = 512

interface RecordContext {
  readonly clock: Clock
  readonly events: Events<SdsEvent>
  nextId(): number
}

interface RecordedConnection {
  readonly info: ConnectionInfo
  readonly budget: Pick<CallerBudget, 'chargeOrRefuse' | 'release'>
}

export class StreamRecord {
  readonly #events: Events<SdsEvent>
  readonly #budget: RecordedConnection['budget']
  readonly #stream: { readonly nodeId: string }
  readonly #names: { readonly size: number }
  /** Updated in place. */
  readonly #info: { -readonly [K in keyof StreamInfo]: StreamInfo[K] }
  #peer = ''
  /** Bytes that are charged for the peer's texts. */
  #charged = 0

  /** Reports that the stream is open. */
  constructor(
    method: CallMethod,
    { clock, events, nextId }: RecordContext,
    { info: connection, budget }: RecordedConnection,
    stream: { readonly nodeId: string },
    names: { readonly size: number },
  ) {
    this.#events = events
    this.#budget = budget
    this.#stream = stream
    this.#names = names
    this.#info = { id: nextId(), method, connection, node: '', names: 0, openedAt: clock.now() }
    events.emit({ kind: 'stream-opened', stream: this.snapshot() })
  }

  snapshot(): StreamInfo {
    return { ...this.#current() }
  }

  describePeer(): string {
    return describePeer(this.#current())
  }

  /** Throws a `StreamRefusal` if there is no room for the peer's texts. */
  report(report: StreamReport): void {
    const stream = this.#current()
    if (this.#peer === '') this.#describe(stream)
    this.#events.emit({ kind: 'stream-report', stream, report, peer: this.#peer })
  }

  /** Reports a bug; a `StreamRefusal` is none. */
  failed(error: unknown): void {
    if (!(error instanceof StreamRefusal)) this.#events.emit({ kind: 'stream-failed', stream: this.snapshot(), error })
  }

  closed({ code: status, details }: { readonly code: number; readonly details: string }): void {
    this.#events.emit({ kind: 'stream-closed', stream: this.snapshot(), status, details })
  }

  /** Call it when the stream is no longer in memory. */
  [Symbol.dispose](): void {
    this.#budget.release(this.#charged)
  }

  #describe(info: StreamInfo): void {
    this.#peer = describePeer(info)
    const bytes = info.node.length + this.#peer.length - FREE_TEXT
    if (bytes <= 0) return
    this.#budget.chargeOrRefuse(bytes, 'more streams')
    this.#charged = bytes
  }

  #current(): StreamInfo {
    this.#info.node = this.#stream.nodeId
    this.#info.names = this.#names.size
    return this.#info
  }
}

function describePeer({ node, connection }: StreamInfo): string {
  const { socket, caller, subject } = connection
  const who = node === '' ? 'a caller' : `node "${node}"`
  const credentials = caller ? ` (pid ${caller.pid}, uid ${caller.uid}${subject ? `, ${subject}` : ''})` : ''
  return `${who}${credentials} on ${socket}`
}
