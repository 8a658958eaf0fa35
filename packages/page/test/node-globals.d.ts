// Node runs these tests, which speak of a browser's document: a global that both have is Node's.
interface Performance {
  readonly eventLoopUtilization: typeof import('node:perf_hooks').performance.eventLoopUtilization
}
