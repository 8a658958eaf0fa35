/** Clocks that differ: what a CA says about time is judged by core, not by the plugin. */
import type { BenchCase } from '../kit/conformance-case.ts'
import { expectCAError, issue } from '../kit/expectations.ts'

const group = 'skew'
const MINUTE_MS = 60_000

export const skewCases: readonly BenchCase[] = [
  {
    group,
    name: 'a CA whose clock is 10 minutes behind is used',
    needs: ['skew'],
    async run(on) {
      on.ca.skewMs = -10 * MINUTE_MS
      await issue(on)
    },
  },
  {
    group,
    name: 'a certificate that begins within 5 minutes is passed on',
    needs: ['skew'],
    async run(on) {
      // Certificates of the fake CA begin 2 minutes back by its own clock.
      on.ca.skewMs = 6 * MINUTE_MS
      await issue(on)
    },
  },
  {
    group,
    name: 'a CA whose clock is 10 minutes ahead is passed on for core to judge, or rejected as bad-response',
    needs: ['skew'],
    async run(on) {
      on.ca.skewMs = 10 * MINUTE_MS
      try {
        await issue(on)
      } catch (error) {
        expectCAError(error, ['bad-response'], 'issue()')
      }
    },
  },
]
