/** Metrics of the process itself. prom-client's own set is not used: promtool rejects some of its names. */
import { totalmem } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { readDescriptorLimit } from '@livery/sds-server'
import type { MetricRow, Sample } from './metric-rows.ts'

interface ProcessSource {
  /** Lines that were dropped because the reader did not take them. */
  droppedLogLines(): number
  /** `native` or `webcrypto`. */
  readonly keyGenerator: string
  readonly version: string
}

export function processMetrics({ version, keyGenerator, droppedLogLines }: ProcessSource): readonly MetricRow[] {
  const maxFiles = readDescriptorLimit()
  return [
    {
      name: 'livery_build_info',
      help: 'Always 1; the labels name the version and the key generator.',
      labels: ['version', 'node', 'key_generator'],
      read: () => [[1, version, process.versions.node, keyGenerator]],
    },
    {
      name: 'livery_log_lines_dropped_total',
      help: 'Log lines that nobody read in time.',
      read: droppedLogLines,
    },
    {
      name: 'process_cpu_seconds_total',
      help: 'User and system CPU time.',
      read: () => {
        const { user, system } = process.cpuUsage()
        return (user + system) / 1e6
      },
    },
    {
      name: 'process_start_time_seconds',
      help: 'When the process started.',
      read: () => performance.timeOrigin / 1000,
    },
    {
      name: 'process_max_fds',
      help: 'How many files, sockets among them, the process may open.',
      read: () => maxFiles,
    },
    {
      name: 'process_resident_memory_bytes',
      help: 'Resident memory.',
      read: () => process.memoryUsage.rss(),
    },
    {
      name: 'livery_memory_limit_bytes',
      help: 'Memory that the process can have: the limit of its control group, or all memory of the machine.',
      read: memoryLimit,
    },
    {
      name: 'nodejs_heap_used_bytes',
      help: 'JavaScript heap in use.',
      read: () => process.memoryUsage().heapUsed,
    },
    {
      name: 'nodejs_heap_limit_bytes',
      help: 'Size of the JavaScript heap at which the process ends.',
      read: () => getHeapStatistics().heap_size_limit,
    },
  ]
}

/** The kernel reports 0, or more than exists, if there is no limit. */
export function memoryLimit(): number {
  const total = totalmem()
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, total) : total
}

const RESOLUTION_MS = 20

/** Measures how late the event loop is, until it is disposed. */
export class EventLoopDelay implements Disposable {
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  #last: readonly Sample[] = []

  constructor() {
    this.#delay.enable()
  }

  metrics(): readonly MetricRow[] {
    return [
      {
        name: 'livery_event_loop_delay_seconds',
        help: 'Delay of the event loop since the last scrape: mean, p99 and max.',
        labels: ['stat'],
        read: () => this.#read(),
      },
    ]
  }

  [Symbol.dispose](): void {
    this.#delay.disable()
  }

  /** Two scrapes in one tick get the same values. */
  #read(): readonly Sample[] {
    const delay = this.#delay
    if (delay.count > 0) {
      this.#last = [
        [lateness(delay.mean), 'mean'],
        [lateness(delay.percentile(99)), 'p99'],
        [lateness(delay.max), 'max'],
      ]
    }
    delay.reset()
    return this.#last
  }
}

/** The measured value is the time between two ticks. */
function lateness(nanoseconds: number): number {
  return Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000)
}
