/** Metrics of the requests to the CA that wait, are in flight, or are planned. */
import { PAUSE_REASONS, type ScheduleStatus } from '@livery/core'
import type { MetricRow, Sample } from './metric-rows.ts'

interface Schedule {
  schedule(): ScheduleStatus
  plannedPerMinute(): readonly number[]
}

export function scheduleMetrics(source: Schedule): readonly MetricRow[] {
  return [
    {
      name: 'livery_ca_requests_queued',
      help: 'Requests to the CA that wait for their turn, by rank: on-demand (somebody waits), first, renewal, retry, in this order.',
      labels: ['rank'],
      read: () => Object.entries(source.schedule().queued).map(([rank, count]): Sample => [count, rank]),
    },
    {
      name: 'livery_ca_requests_in_flight',
      help: 'Requests that the CA has not answered yet.',
      read: () => source.schedule().inFlight,
    },
    {
      name: 'livery_ca_requests_window',
      help: 'How many requests may be in flight at once: it grows while the CA keeps up, and halves when it does not.',
      read: () => source.schedule().window,
    },
    {
      name: 'livery_ca_paused',
      help: '1 for the reason why the CA is asked for less than is due: rate-limited (it has no room), ca-down (one request at a time probes it), clock-jumped (its roots are asked for first).',
      labels: ['reason'],
      read: () => {
        const { pause } = source.schedule()
        return PAUSE_REASONS.map((reason): Sample => [pause?.reason === reason ? 1 : 0, reason])
      },
    },
    {
      name: 'livery_renewals_planned',
      help: 'Renewals and retries that fall due in each of the next 60 minutes: minute="0" is this one.',
      labels: ['minute'],
      read: () => source.plannedPerMinute().map((count, minute): Sample => [count, `${minute}`]),
    },
  ]
}
