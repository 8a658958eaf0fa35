/** Records what happens to secrets and streams in the ledger, the log and the metrics. */
import type { Clock, SecretReport } from '@livery/core'
import type { SdsEvent } from '@livery/sds-server'
import type { EventLog } from '../observe/event-log.ts'
import { type Ledger, type LedgerEntry, toLedgerEvent } from '../observe/ledger.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Lifecycle } from './lifecycle.ts'

export interface EventRecorderOptions {
  readonly clock: Clock
  readonly ledger: Ledger
  readonly log: EventLog
  readonly metrics: Metrics
  readonly lifecycle: Pick<Lifecycle, 'phase'>
}

export class EventRecorder {
  readonly #options: EventRecorderOptions

  constructor(options: EventRecorderOptions) {
    this.#options = options
  }

  /** Records an event of an identity or a trust bundle. */
  secret({ name, time, event }: SecretReport): void {
    this.#record(name, { time, event })
  }

  /** Records an event of the SDS server, in the ledger too if it is about a named secret. */
  sds(event: SdsEvent): void {
    const { clock, log, metrics } = this.#options
    if (event.kind === 'stream-report' && 'name' in event.report) {
      const { report, peer } = event
      this.#record(report.ledgerName, { time: clock.now(), event: toLedgerEvent(report, peer) })
    }
    log.sds(event)
    metrics.sds.observe(event)
  }

  #record(name: string, entry: LedgerEntry): void {
    const { ledger, log, metrics, lifecycle } = this.#options
    ledger.record(name, entry)
    // Closing forgets every identity, which is not news then.
    if (lifecycle.phase !== 'draining' || entry.event.kind !== 'withdrawn') log.ledger(name, entry)
    metrics.record(name, entry)
  }
}
