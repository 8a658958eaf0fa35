/** Metrics of the SDS side: what was pushed and how the clients took it. */

import type { SdsEvent, StreamReport } from '@livery/sds-server'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { LedgerEvent } from './ledger.ts'

/** The state of the SDS server, read at each scrape. */
export interface SdsSource {
  sockets(): readonly { readonly path: string; readonly connections: number; readonly streams: number }[]
}

export class SdsMetrics {
  readonly #byEvent: ReadonlyMap<LedgerEvent['kind'], Counter>
  readonly #stale: Counter
  readonly #refusedNames: Counter
  readonly #slowedCallers: Counter<'socket'>
  readonly #refusedConnections: Counter<'socket' | 'reason'>
  readonly #refusedStreams: Counter<'reason'>

  constructor(registry: Registry, source: SdsSource) {
    const counter = (name: string, help: string) =>
      new Counter({ name: `livery_sds_${name}_total`, help, registers: [registry] })
    this.#refusedNames = counter(
      'refused_names',
      'Requests for names that the caller is not allowed, or that are unknown.',
    )
    this.#byEvent = new Map([
      ['pushed', counter('pushes', 'Secrets sent to a stream.')],
      ['acked', counter('acks', 'Secrets that a client accepted.')],
      ['nacked', counter('nacks', 'Secrets that a client rejected: livery explain NAME shows its reason.')],
      ['no-room', counter('no_room_names', 'Requests for names on demand while maxIdentities were held and in use.')],
      ['refused', this.#refusedNames],
    ])
    this.#stale = counter('stale_requests', 'Requests that answered an older response than the last one.')
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
    gauge(registry, source, 'connections', 'Open connections.')
    gauge(registry, source, 'streams', 'Open streams.')
  }

  /** Counts one event of the ledger. */
  record({ kind }: LedgerEvent): void {
    this.#byEvent.get(kind)?.inc()
  }

  /** Counts one event of the server; what is in the ledger too is counted there. */
  observe(event: SdsEvent): void {
    if (event.kind === 'connection-refused') {
      this.#refusedConnections.inc({ socket: event.connection.socket, reason: event.reason })
    } else if (event.kind === 'stream-refused') this.#refusedStreams.inc({ reason: event.bound })
    else if (event.kind === 'caller-slowed') this.#slowedCallers.inc({ socket: event.socket })
    else if (event.kind === 'stream-report') this.#countReport(event.report.kind)
  }

  #countReport(kind: StreamReport['kind']): void {
    if (kind === 'stale') this.#stale.inc()
    else if (kind === 'refused-unnamed') this.#refusedNames.inc()
  }
}

function gauge(registry: Registry, source: SdsSource, what: 'connections' | 'streams', help: string): void {
  new Gauge({
    name: `livery_sds_${what}`,
    help,
    labelNames: ['socket'],
    registers: [registry],
    collect() {
      this.reset()
      // A path may have two: one that drains, and the one that took its place.
      for (const socket of source.sockets()) this.inc({ socket: socket.path }, socket[what])
    },
  })
}
