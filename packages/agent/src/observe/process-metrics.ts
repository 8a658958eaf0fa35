/** Metrics of the process itself. prom-client's own set is not used: promtool rejects some of its names. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, type Registry } from 'prom-client'

export interface ProcessSource {
  /** Lines that the reader of the log did not take. */
  droppedLogLines(): number
  /** `native` or `webcrypto`. */
  readonly keyGenerator: string
  readonly version: string
}

/** Registers them; what is returned stops the measurement of the event loop. */
export function registerProcessMetrics(registry: Registry, source: ProcessSource): Disposable {
  const registers = [registry]
  new Gauge({
    name: 'livery_build_info',
    help: 'Always 1; the labels name the version and the key generator.',
    labelNames: ['version', 'node', 'key_generator'],
    registers,
  }).set({ version: source.version, node: process.versions.node, key_generator: source.keyGenerator }, 1)
  growing(registry, 'livery_log_lines_dropped_total', 'Log lines that nobody read in time.', () =>
    source.droppedLogLines(),
  )
  growing(registry, 'process_cpu_seconds_total', 'User and system CPU time.', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  new Gauge({ name: 'process_start_time_seconds', help: 'When the process started.', registers }).set(
    performance.timeOrigin / 1000,
  )
  new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory.',
    registers,
    collect() {
      this.set(process.memoryUsage.rss())
    },
  })
  new Gauge({
    name: 'nodejs_heap_used_bytes',
    help: 'JavaScript heap in use.',
    registers,
    collect() {
      this.set(process.memoryUsage().heapUsed)
    },
  })
  return registerEventLoopDelay(registry)
}

const RESOLUTION_MS = 20

function registerEventLoopDelay(registry: Registry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delay.enable()
  new Gauge({
    name: 'livery_event_loop_delay_seconds',
    help: 'Delay of the event loop since the last scrape: mean, p99 and max.',
    labelNames: ['stat'],
    registers: [registry],
    collect() {
      if (delay.count > 0) {
        this.set({ stat: 'mean' }, lateness(delay.mean))
        this.set({ stat: 'p99' }, lateness(delay.percentile(99)))
        this.set({ stat: 'max' }, lateness(delay.max))
      }
      delay.reset()
    },
  })
  return { [Symbol.dispose]: () => void delay.disable() }
}

/** What is measured is the time between two ticks. */
function lateness(nanoseconds: number): number {
  return Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000)
}

/** A counter whose total is kept elsewhere. */
function growing(registry: Registry, name: string, help: string, read: () => number): void {
  let counted = 0
  new Counter({
    name,
    help,
    registers: [registry],
    collect() {
      const total = read()
      this.inc(Math.max(0, total - counted))
      counted = total
    },
  })
}
