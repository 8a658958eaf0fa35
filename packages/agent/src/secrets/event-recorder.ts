/** Records events of secrets and streams in the ledger, the log and the metrics. */
import type { SecretReport } from '@livery/core'
import type { SdsEvent } from '@livery/sds-server'
import type { Basis } from '../life/basis.ts'
import type { Life } from '../life/life.ts'
import { type Ledger, toLedgerEvent } from '../observe/ledger.ts'

interface Records extends Pick<Basis, 'clock' | 'log' | 'metrics'> {
  readonly ledger: Ledger
  readonly life: Pick<Life, 'phase'>
}

export class EventRecorder {
  readonly #records: Records

  constructor(records: Records) {
    this.#records = records
  }

  /** Records an event of an identity or a trust bundle. */
  secret({ name, time, event }: SecretReport): void {
    const { ledger, log, metrics, life } = this.#records
    const entry = { time, event }
    ledger.record(name, entry)
    // Closing forgets every identity, which is no news.
    if (life.phase !== 'draining' || event.kind !== 'withdrawn') log.write(event, name)
    metrics.record(name, entry)
  }

  /** Records an event of the SDS server; one about a named secret is recorded as an event of that name. */
  sds(event: SdsEvent): void {
    const { clock, ledger, log, metrics } = this.#records
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
