/** How the plugin and the CA treat the lifetime asked for. */
import assert from 'node:assert/strict'
import type { CACapabilities } from '@livery/core/plugin'
import { type BenchCase, type LiveCase, type Subject, unlessBringsKey } from '../kit/conformance-case.ts'
import { issue, issueBadly, lifetimeOf } from '../kit/expectations.ts'

const group = 'ttl'

/** Clocks apart, whole seconds, and a CA that counts from its back-dated notBefore. */
const TOLERANCE_SECONDS = 150
const SHORT_SECONDS = 600
const LONG_SECONDS = 86_400

const unlessAnyWish = ({ ttl }: CACapabilities) => (ttl === 'ignored' ? 'the CA has its own lifetime' : undefined)
const unlessWished = (capabilities: CACapabilities) => unlessBringsKey(capabilities) ?? unlessAnyWish(capabilities)

/** The lifetime of a certificate requested for `ttlSeconds`. */
async function lifetime(on: Subject, ttlSeconds: number): Promise<number> {
  return lifetimeOf(await issue(on, { ttlSeconds }), on.clock.now())
}

export const ttlCases: readonly LiveCase[] = [
  {
    group,
    name: 'a certificate lives no longer than was asked for',
    skip: unlessAnyWish,
    async run(on) {
      for (const ttlSeconds of [SHORT_SECONDS, on.ttlSeconds]) {
        const seconds = await lifetime(on, ttlSeconds)
        assert.ok(seconds <= ttlSeconds + TOLERANCE_SECONDS, `asked for ${ttlSeconds} s, it lives ${seconds} s`)
      }
    },
  },
  {
    group,
    name: 'a certificate lives as long as was asked for',
    skip: ({ ttl }) => (ttl === 'honoured' ? undefined : `the CA says that lifetimes are ${ttl}`),
    async run(on) {
      for (const ttlSeconds of [SHORT_SECONDS, on.ttlSeconds]) {
        const seconds = await lifetime(on, ttlSeconds)
        assert.ok(seconds >= ttlSeconds - TOLERANCE_SECONDS, `asked for ${ttlSeconds} s, it lives ${seconds} s`)
      }
    },
  },
  {
    group,
    name: 'a certificate of a CA that sets its own lifetime is valid now',
    skip: ({ ttl }) => (ttl === 'ignored' ? undefined : `the CA says that lifetimes are ${ttl}`),
    run: async on => void (await lifetime(on, on.ttlSeconds)),
  },
]

export const limitedTtlCases: readonly BenchCase[] = [
  {
    group,
    name: 'a wish reaches the CA to the second',
    skip: unlessWished,
    async run(on) {
      for (const ttlSeconds of [SHORT_SECONDS + 29, LONG_SECONDS - 29]) {
        let wish: number | undefined
        on.ca.fault = request => {
          wish = request.ttlSeconds
          return { kind: 'none' }
        }
        const seconds = await lifetime(on, ttlSeconds)
        // A certificate's dates are whole seconds.
        const isExact = wish === undefined ? Math.abs(seconds - ttlSeconds) < 2 : wish === ttlSeconds
        assert.ok(isExact, `asked for ${ttlSeconds} s, but the CA was asked for ${wish ?? Math.round(seconds)} s`)
      }
    },
  },
  {
    group,
    name: 'a certificate that the CA cut shorter is passed on',
    needs: ['clamp'],
    skip: unlessWished,
    async run(on) {
      on.ca.longest = { seconds: SHORT_SECONDS, beyond: 'clamp' }
      const seconds = await lifetime(on, LONG_SECONDS)
      assert.ok(seconds <= SHORT_SECONDS + TOLERANCE_SECONDS, `the CA gave ${SHORT_SECONDS} s, it lives ${seconds} s`)
    },
  },
  {
    group,
    name: 'a wish that the CA refuses is reported as "ttl-too-long", and a shorter one works',
    needs: ['ttl-too-long'],
    skip: unlessWished,
    async run(on) {
      on.ca.longest = { seconds: SHORT_SECONDS, beyond: 'refuse' }
      await issueBadly(on, ['ttl-too-long'], { ttlSeconds: LONG_SECONDS })
      await issue(on, { ttlSeconds: SHORT_SECONDS })
    },
  },
]
