/** Metrics of the SDS side: the pushes, and the clients' answers. */

import type { SdsEvent, StreamReport } from '@livery/sds-server'
import type { LedgerEvent } from './agent-event.ts'
import { type MetricRow, registerRows, type Sample } from './metric-rows.ts'
import { Counter, Histogram, type Registry } from './prometheus.ts'

interface Tally {
  count: number
}

export class SdsMetrics {
  /** Plain numbers, since each response counts a push and an ACK for each of its secrets. */
  readonly #byEvent: ReadonlyMap<LedgerEvent['kind'], Tally>
  readonly #refusedNames: Tally
  readonly #slowedCallers: Counter<'socket'>
  readonly #refusedConnections: Counter<'socket' | 'reason'>
  readonly #refusedStreams: Counter<'reason'>
  readonly #ackLag: Histogram

  constructor(registry: Registry) {
    const counter = (name: string, help: string): Tally => {
      const tally = { count: 0 }
      registerRows(registry, [{ name: `livery_sds_${name}_total`, help, read: () => tally.count }])
      return tally
    }
    this.#refusedNames = counter(
      'refused_names',
      'Requests for names that the caller is not allowed, or that are unknown.',
    )
    this.#byEvent = new Map([
      ['pushed', counter('pushes', 'Secrets sent to a stream.')],
      ['acked', counter('acks', 'Secrets that a client accepted.')],
      ['nacked', counter('nacks', 'Secrets that a client rejected: livery explain NAME shows its reason.')],
      ['refused', this.#refusedNames],
    ])
    this.#ackLag = new Histogram({
      name: 'livery_sds_ack_lag_seconds',
      help: 'Time from a response to the ACK of its client, for each secret in it. A client that never answers is not in it.',
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 1, 5, 30, 120],
      registers: [registry],
    })
    this.#refusedStreams = new Counter({
      name: 'livery_sds_refused_streams_total',
      help: 'Streams refused by a limit: the share of the socket or of the process, or the limits of the caller.',
      labelNames: ['reason'],
      registers: [registry],
    })
    this.#slowedCallers = new Counter({
      name: 'livery_sds_slowed_callers_total',
      help: 'How often requests of a caller waited for its rate (limits.perCaller.requestsPerSecond): once in 10 s while it lasts.',
      labelNames: ['socket'],
      registers: [registry],
    })
    this.#refusedConnections = new Counter({
      name: 'livery_sds_refused_connections_total',
      help: 'Connections refused: no rule admits the caller, or a limit is reached.',
      labelNames: ['socket', 'reason'],
      registers: [registry],
    })
  }

  /** Counts one event of the ledger. */
  record({ kind }: LedgerEvent): void {
    const tally = this.#byEvent.get(kind)
    if (tally) tally.count++
  }

  /** Counts one event of the server; ledger events are counted there. */
  observe(event: SdsEvent): void {
    if (event.kind === 'connection-refused') {
      this.#refusedConnections.inc({ socket: event.connection.socket, reason: event.reason })
    } else if (event.kind === 'stream-refused') this.#refusedStreams.inc({ reason: event.bound })
    else if (event.kind === 'caller-slowed') this.#slowedCallers.inc({ socket: event.socket })
    else if (event.kind === 'stream-report') this.#countReport(event.report)
  }

  /** The total so far, over all sockets and reasons. */
  async refusedConnections(): Promise<number> {
    const { values } = await this.#refusedConnections.get()
    return values.reduce((sum, { value }) => sum + value, 0)
  }

  #countReport(report: StreamReport): void {
    if (report.kind === 'acked') this.#ackLag.observe(report.lagMs / 1000)
    else if (report.kind === 'refused-unnamed') this.#refusedNames.count++
  }
}

const SOCKET_STATES = ['listening', 'waiting', 'superseded', 'closed'] as const

/** A socket of the SDS server. */
export interface SocketLoad {
  readonly path: string
  readonly state: (typeof SOCKET_STATES)[number]
  readonly connections: number
  readonly streams: number
}

export function socketMetrics(server: { sockets(): readonly SocketLoad[] }): readonly MetricRow[] {
  const perPath = (read: (socket: SocketLoad) => number) => () => sumByPath(server.sockets(), read)
  return [
    {
      name: 'livery_sds_sockets',
      help: 'Sockets, by state: listening, waiting (another process listens on the path), superseded (another process took it), or closed (it drains).',
      labels: ['state'],
      read: () => countStates(server.sockets()),
    },
    {
      name: 'livery_sds_connections',
      help: 'Open connections.',
      labels: ['socket'],
      read: perPath(({ connections }) => connections),
    },
    {
      name: 'livery_sds_streams',
      help: 'Open streams.',
      labels: ['socket'],
      read: perPath(({ streams }) => streams),
    },
  ]
}

/** The number of sockets in each state, zero included. */
function countStates(sockets: readonly SocketLoad[]): readonly Sample[] {
  const counts = new Map(SOCKET_STATES.map(state => [state, 0]))
  for (const { state } of sockets) counts.set(state, (counts.get(state) ?? 0) + 1)
  return Array.from(counts, ([state, count]) => [count, state])
}

/** A path may have two sockets: one drains, its successor serves. */
function sumByPath(sockets: readonly SocketLoad[], read: (socket: SocketLoad) => number): readonly Sample[] {
  const sums = new Map<string, number>()
  for (const socket of sockets) sums.set(socket.path, (sums.get(socket.path) ?? 0) + read(socket))
  return Array.from(sums, ([path, sum]) => [sum, path])
}
