/** Records what happens to secrets and streams in the ledger, the log and the metrics. */
import type { Clock, SecretReport } from '@livery/core'
import type { SdsEvent } from '@livery/sds-server'
import type { EventLog } from '../observe/event-log.ts'
import { type Ledger, toLedgerEvent } from '../observe/ledger.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Lifecycle } from './lifecycle.ts'

interface EventRecorderOptions {
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
    const { ledger, log, metrics, lifecycle } = this.#options
    const entry = { time, event }
    ledger.record(name, entry)
    // Closing forgets every identity, which is not news then.
    if (lifecycle.phase !== 'draining' || event.kind !== 'withdrawn') log.write(event, name)
    metrics.record(name, entry)
  }

  /** Records an event of the SDS server; one about a named secret has its line in the ledger and the log as that. */
  sds(event: SdsEvent): void {
    const { clock, ledger, log, metrics } = this.#options
    metrics.sds.observe(event)
    if (event.kind !== 'stream-report') log.write(event)
    else if (event.report.kind === 'refused-unnamed')
      log.write({ kind: 'refused-unnamed', connection: event.stream.connection })
    else if ('name' in event.report) {
      const { report, peer } = event
      const entry = { time: clock.now(), event: toLedgerEvent(report, peer) }
      ledger.record(report.ledgerName, entry)
      log.write(entry.event, report.ledgerName)
      metrics.sds.record(entry.event)
    }
  }
}
