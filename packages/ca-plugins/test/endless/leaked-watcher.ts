/** A run of the suite that would never end: each client of the plugin leaves a watcher open, which keeps the process alive. */
import { test } from 'node:test'
import { suite } from '../../src/conformance/suite.ts'
import { WatchingClient } from '../broken-conduct.ts'
import { REFERENCE_CAPABILITIES } from '../reference-plugin.ts'

suite({
  // The others pass, and take their time.
  test: (name, run) => (/^(close|handles): /.test(name) ? test(name, run) : undefined),
  create: ({ ca, context }) => new WatchingClient(ca, context),
  capabilities: REFERENCE_CAPABILITIES,
  patienceMs: 2_000,
})
