/** How refusals and broken connections are reported. */
import assert from 'node:assert/strict'
import type { BenchCase } from '../kit/conformance-case.ts'
import { expectCAError, issue, issueBadly } from '../kit/expectations.ts'
import { REFUSAL_CODES } from '../kit/fake-ca-fault.ts'
import { rejection, started } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'

const group = 'errors'

const RETRY_AFTER_MS = 7_000
/** Longer than a plugin waits whose timeout is unknown. */
const LONG_MS = 24 * 3_600_000
const BY_THE_CLOCK =
  ': the limit of a call must run by context.clock, which the kit sets forward (`after` of @livery/core/plugin)'

export const errorCases: readonly BenchCase[] = [
  ...REFUSAL_CODES.map(
    (code): BenchCase => ({
      group,
      name: `"${code}" of the CA is reported as "${code}", is not retried, and the next call works`,
      needs: [code],
      async run(on) {
        on.ca.fault = { kind: 'refuse', code }
        await issueBadly(on, [code])
        assert.equal(on.ca.requests, 1, `the CA was asked ${on.ca.requests} times: core retries, plugins do not`)
        on.ca.fault = { kind: 'none' }
        await issue(on)
      },
    }),
  ),
  {
    group,
    name: 'retryAfterMs is how long the CA asked to wait',
    needs: ['rate-limited', 'retry-after'],
    async run(on) {
      on.ca.fault = { kind: 'refuse', code: 'rate-limited', retryAfterMs: RETRY_AFTER_MS }
      const { retryAfterMs } = await issueBadly(on, ['rate-limited'])
      assert.ok(
        retryAfterMs !== undefined && Math.abs(retryAfterMs - RETRY_AFTER_MS) <= 1_000,
        `the CA asked for ${RETRY_AFTER_MS} ms, retryAfterMs is ${retryAfterMs}`,
      )
    },
  },
  {
    group,
    name: 'a broken connection is "unavailable", tried again at most once, and the next call works',
    needs: ['reset'],
    async run(on) {
      on.ca.fault = { kind: 'reset' }
      await issueBadly(on, ['unavailable'])
      assert.ok(on.ca.requests <= 2, `the CA was asked ${on.ca.requests} times`)
      on.ca.fault = { kind: 'none' }
      await issue(on)
    },
  },
  {
    group,
    name: 'a CA that never answers ends in "timeout": at the limit of the options, or when the signal is aborted',
    needs: ['hang'],
    async run(on) {
      on.ca.fault = { kind: 'hang' }
      const controller = new AbortController()
      const request = await kitRequest(on, { signal: controller.signal })
      const what = 'issue() at a CA that never answers'
      const asked = started(rejection(on.client.issue(request), on.patienceMs, what, BY_THE_CLOCK))
      await Promise.race([on.ca.arrived(1), asked])
      const { timeoutMs } = on
      await on.context.clock.advance((timeoutMs ?? LONG_MS) * 1.01)
      if (timeoutMs === undefined) controller.abort(new Error('nobody waits any more'))
      const error = await asked
      if (error !== controller.signal.reason) expectCAError(error, ['timeout'], what)
    },
  },
  {
    group,
    name: 'an answer that takes a second is waited for',
    needs: ['delay'],
    async run(on) {
      on.ca.fault = { kind: 'delay', ms: 1_000 }
      const answered = started(issue(on))
      await Promise.race([on.ca.arrived(1), answered])
      await on.context.clock.advance(1_000)
      await answered
    },
  },
]
