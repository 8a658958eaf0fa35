/** Many calls at once: none waits for another, and none gets another's answer. */
import assert from 'node:assert/strict'
import { type BenchCase, type LiveCase, type Subject, unlessBringsKey } from '../kit/conformance-case.ts'
import { expectOwn } from '../kit/expectations.ts'
import { inTime, started } from '../kit/in-time.ts'
import { type KitRequest, kitRequest } from '../kit/kit-request.ts'

const group = 'parallel'

/** More than a plugin has connections. */
const MANY = 128
const MANY_SLOW = 1_000

async function manyRequests(on: Subject): Promise<readonly KitRequest[]> {
  const { identities } = on
  return Promise.all(
    Array.from({ length: on.parallel }, (_, index) => {
      const identity = identities[index % identities.length]
      return kitRequest(on, identity === undefined ? {} : { identity })
    }),
  )
}

/** All requests share one key: the way to the CA counts, and keys take time. */
async function alikeRequests(on: Subject, count = on.parallel): Promise<readonly KitRequest[]> {
  const { material } = await kitRequest(on)
  return Promise.all(Array.from({ length: count }, () => kitRequest(on, { material })))
}

export const parallelCases: readonly LiveCase[] = [
  {
    group,
    name: 'requests made at once each get their own answer',
    async run(on) {
      const requests = await manyRequests(on)
      const all = Promise.all(requests.map(request => on.client.issue(request)))
      const answers = await inTime(all, on.patienceMs, `${requests.length} calls at once`)
      for (const [index, request] of requests.entries()) {
        const issued = answers[index]
        assert.ok(issued, `call ${index} has no answer`)
        expectOwn(on, request, issued)
      }
    },
  },
]

export const inFlightTogetherCases: readonly BenchCase[] = [
  {
    group,
    name: 'requests made at once are all at the CA at once',
    needs: ['hang'],
    skip: unlessBringsKey,
    async run(on) {
      on.ca.fault = { kind: 'hang' }
      const requests = await alikeRequests(on)
      const all = started(Promise.all(requests.map(request => on.client.issue(request))))
      const arrived = Promise.race([on.ca.arrived(requests.length), all])
      await inTime(arrived, on.patienceMs, `the arrival of ${requests.length} requests at the CA, none answered yet`)
      on.ca.release()
      await inTime(all, on.patienceMs, `${requests.length} calls at once`)
    },
  },
  {
    group,
    name: 'more than a hundred requests made at once, with `slow` a thousand, are all answered',
    needs: ['load'],
    skip: unlessBringsKey,
    async run(on) {
      on.ca.repeats = true
      const requests = await alikeRequests(on, on.slow ? MANY_SLOW : MANY)
      const all = Promise.all(requests.map(request => on.client.issue(request)))
      await inTime(all, on.patienceMs, `${requests.length} calls at once`)
    },
  },
  {
    group,
    name: 'one request that hangs delays no other',
    needs: ['hang'],
    skip: unlessBringsKey,
    async run(on) {
      const [slow, ...others] = await alikeRequests(on)
      assert.ok(slow)
      on.ca.fault = { kind: 'hang' }
      const stuck = started(on.client.issue(slow))
      await inTime(Promise.race([on.ca.arrived(1), stuck]), on.patienceMs, 'the first request at the CA')
      on.ca.fault = { kind: 'none' }
      const all = Promise.all(others.map(request => on.client.issue(request)))
      await inTime(all, on.patienceMs, `${others.length} calls behind one that hangs`)
      on.ca.release()
      expectOwn(on, slow, await inTime(stuck, on.patienceMs, 'the call that hung'))
    },
  },
]
