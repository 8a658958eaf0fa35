// These tests are programs of Node that speak of a browser's document: where both have a global, it is that of Node.
interface Performance {
  readonly eventLoopUtilization: typeof import('node:perf_hooks').performance.eventLoopUtilization
}
