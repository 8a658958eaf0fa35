/** Every call ends when its signal is aborted, wherever it is. */
import assert from 'node:assert/strict'
import { type BenchCase, type LiveCase, unlessBringsKey } from '../kit/conformance-case.ts'
import { issue } from '../kit/expectations.ts'
import { inTime, rejection, started } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'

const group = 'cancellation'

export const cancellationCases: readonly LiveCase[] = [
  {
    group,
    name: 'a signal that is aborted already rejects with its reason',
    async run(on) {
      const signal = AbortSignal.abort(new Error('aborted before the call'))
      const asked = on.client.issue(await kitRequest(on, { signal }))
      assert.equal(await rejection(asked, on.patienceMs, 'issue() with an aborted signal'), signal.reason)
      if (!on.client.trustBundle) return
      const bundle = on.client.trustBundle({ signal })
      assert.equal(await rejection(bundle, on.patienceMs, 'trustBundle() with an aborted signal'), signal.reason)
    },
  },
  {
    group,
    name: 'an abort while the CSR is being made rejects with its reason',
    skip: unlessBringsKey,
    async run(on) {
      const controller = new AbortController()
      const called = Promise.withResolvers<void>()
      const csr = () => {
        called.resolve()
        return new Promise<never>(() => {})
      }
      const request = await kitRequest(on, { signal: controller.signal, csr })
      const asked = started(rejection(on.client.issue(request), on.patienceMs, 'issue() while its CSR is made'))
      await Promise.race([called.promise, asked])
      controller.abort(new Error('aborted while the CSR was made'))
      assert.equal(await asked, controller.signal.reason)
    },
  },
  {
    group,
    name: 'an abort in the same turn as the call ends it, and the next call works',
    async run(on) {
      const controller = new AbortController()
      const request = await kitRequest(on, { signal: controller.signal })
      const asked = rejection(on.client.issue(request), on.patienceMs, 'issue() with a signal that is aborted at once')
      controller.abort(new Error('aborted in the same turn'))
      assert.equal(await asked, controller.signal.reason)
      await issue(on)
    },
  },
]

export const inFlightCases: readonly BenchCase[] = [
  {
    group,
    name: 'an abort in flight rejects with its reason at once, and leaves the other calls alone',
    needs: ['hang'],
    async run(on) {
      on.ca.fault = { kind: 'hang' }
      const controller = new AbortController()
      const aborted = await kitRequest(on, { signal: controller.signal })
      const other = await kitRequest(on)
      const asked = started(rejection(on.client.issue(aborted), on.patienceMs, 'issue() that is aborted in flight'))
      const answered = started(on.client.issue(other))
      await inTime(Promise.race([on.ca.arrived(1), asked]), on.patienceMs, 'the request at the CA')
      controller.abort(new Error('aborted in flight'))
      assert.equal(await asked, controller.signal.reason)
      on.ca.fault = { kind: 'none' }
      on.ca.release()
      await inTime(answered, on.patienceMs, 'the call that was not aborted')
    },
  },
  {
    group,
    name: 'an aborted signal keeps the CA from being asked',
    skip: unlessBringsKey,
    async run(on) {
      const signal = AbortSignal.abort(new Error('aborted before the call'))
      const request = await kitRequest(on, { signal })
      await rejection(on.client.issue(request), on.patienceMs, 'issue() with an aborted signal')
      assert.equal(on.ca.requests, 0)
    },
  },
]
