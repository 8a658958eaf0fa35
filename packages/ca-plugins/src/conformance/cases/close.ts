/** A closed client refuses every call, and does nothing more. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { BenchCase, LiveCase } from '../kit/conformance-case.ts'
import { close, inTime, rejection, started } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'

const group = 'close'

export const closeCases: readonly LiveCase[] = [
  {
    group,
    name: 'every method rejects after close, and closing twice is one close',
    async run(on) {
      await close(on.client, on.patienceMs)
      await close(on.client, on.patienceMs)
      const { client, patienceMs } = on
      const expectRefused = async (call: Promise<unknown>, what: string) => {
        const reason = await rejection(call, patienceMs, `${what} after close`)
        assert.ok(reason instanceof Error, `${what} after close was rejected with ${inspect(reason)}, not an Error`)
      }
      await expectRefused(client.issue(await kitRequest(on)), 'issue()')
      const signal = new AbortController().signal
      if (client.trustBundle) await expectRefused(client.trustBundle({ signal }), 'trustBundle()')
    },
  },
]

export const closingCases: readonly BenchCase[] = [
  {
    group,
    name: 'close does not wait for a CA that hangs, and the open call is rejected',
    needs: ['hang'],
    async run(on) {
      on.ca.fault = { kind: 'hang' }
      const request = await kitRequest(on)
      const asked = started(rejection(on.client.issue(request), on.patienceMs, 'the call that was open at close'))
      await inTime(Promise.race([on.ca.arrived(1), asked]), on.patienceMs, 'the request at the CA')
      await close(on.client, on.patienceMs)
      await asked
    },
  },
  {
    group,
    name: 'a subscriber hears nothing after close',
    needs: ['root-rotation'],
    skip: ({ roots }) => (roots === 'push' ? undefined : 'the client has no subscribe'),
    async run(on) {
      let calls = 0
      on.client.subscribe?.(() => calls++)
      await close(on.client, on.patienceMs)
      await on.ca.addRoot()
      for (let turn = 0; turn < 20; turn++) await setImmediate()
      assert.equal(calls, 0, 'a listener was called after close')
    },
  },
  {
    group: 'handles',
    name: 'nothing waits by the clock after close',
    async run(on) {
      const request = await kitRequest(on)
      await inTime(on.client.issue(request), on.patienceMs, 'issue()')
      const subscription = on.client.subscribe?.(() => {})
      await close(on.client, on.patienceMs)
      const { waiting } = on.context.clock
      subscription?.[Symbol.dispose]()
      assert.equal(waiting, 0, `${waiting} deadlines of context.clock are still waited for after close`)
    },
  },
]
