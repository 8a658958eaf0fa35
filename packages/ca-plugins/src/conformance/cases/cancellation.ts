/** Every call ends when its signal is aborted, wherever it is. */
import assert from 'node:assert/strict'
import { type Bench, type BenchCase, type LiveCase, type Subject, unlessBringsKey } from '../kit/conformance-case.ts'
import { issue } from '../kit/expectations.ts'
import { againIfLate, expectNone, inTime, rejection, rejectionAtOnce, started } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'
import { describe } from '../kit/opened-resources.ts'

const group = 'cancellation'
/** A program may clean up before it ends. */
const PROGRAM_END_MS = 2_000

/** `promise` rejects at once, with the reason of `signal` and not with an error like it. */
async function expectAborted(
  promise: Promise<unknown>,
  { reason }: AbortSignal,
  patienceMs: number,
  what: string,
): Promise<void> {
  const error = await rejectionAtOnce(promise, patienceMs, what)
  const names = [error, reason].map(each => (each instanceof Error ? `${each.name} "${each.message}"` : String(each)))
  assert.ok(
    error === reason,
    `${what} was rejected with ${names[0]} in place of signal.reason, which is ${names[1]}: throw signal.reason itself, such as by untilAborted of @livery/core/plugin`,
  )
}

async function abortBefore(on: Subject): Promise<void> {
  const signal = AbortSignal.abort(new Error('aborted before the call'))
  const asked = on.client.issue(await kitRequest(on, { signal }))
  await expectAborted(asked, signal, on.patienceMs, 'issue() with an aborted signal')
  if (!on.client.trustBundle) return
  const bundle = on.client.trustBundle({ signal })
  await expectAborted(bundle, signal, on.patienceMs, 'trustBundle() with an aborted signal')
}

async function abortDuringCsr(on: Subject): Promise<void> {
  const controller = new AbortController()
  const called = Promise.withResolvers<void>()
  const csr = () => {
    called.resolve()
    return new Promise<never>(() => {})
  }
  const request = await kitRequest(on, { signal: controller.signal, csr })
  const asked = started(on.client.issue(request))
  const reached = Promise.race([called.promise, asked])
  await inTime(reached, on.patienceMs, 'the call of csr()')
  controller.abort(new Error('aborted while the CSR was made'))
  await expectAborted(asked, controller.signal, on.patienceMs, 'issue() that is aborted while its CSR is made')
}

async function abortInTheSameTurn(on: Subject): Promise<void> {
  const controller = new AbortController()
  const request = await kitRequest(on, { signal: controller.signal })
  const asked = on.client.issue(request)
  controller.abort(new Error('aborted in the same turn'))
  await expectAborted(asked, controller.signal, on.patienceMs, 'issue() with a signal that is aborted in the same turn')
  await issue(on)
}

/** Aborts a call whose request is at the CA. Rejects unless the call ends at once with the reason of its signal. */
async function abortInFlight(on: Bench, whileInFlight: () => Promise<void> = async () => {}): Promise<void> {
  on.ca.fault = { kind: 'hang' }
  const controller = new AbortController()
  const arrived = on.ca.arrived(on.ca.requests + 1)
  const asked = started(on.client.issue(await kitRequest(on, { signal: controller.signal })))
  await whileInFlight()
  // A source that brings its own key may have answered.
  await inTime(Promise.race([arrived, asked]), on.patienceMs, 'the request at the CA')
  controller.abort(new Error('aborted in flight'))
  await expectAborted(asked, controller.signal, on.patienceMs, 'issue() that is aborted in flight')
}

/** Works as {@link abortInFlight}, with a second call that continues. */
async function abortOneOfTwo(on: Bench): Promise<void> {
  let answered: Promise<unknown> = Promise.resolve()
  await abortInFlight(on, async () => {
    answered = started(on.client.issue(await kitRequest(on)))
  })
  on.ca.fault = { kind: 'none' }
  on.ca.release()
  await inTime(answered, on.patienceMs, 'the call that was not aborted')
}

async function endProgramOnAbort(on: Bench): Promise<void> {
  on.ca.fault = { kind: 'none' }
  // A program that serves all calls is running after this.
  await issue(on)
  const before = new Set(on.opened.programs())
  // A client that answers without asking the CA has nothing to end; another case judges the answer.
  if (await answersWithoutTheCA(on)) return
  await abortInFlight(on)
  const left = () => on.opened.programs().filter(program => !before.has(program))
  await expectNone(
    () => left().map(describe),
    Math.min(on.patienceMs, PROGRAM_END_MS),
    'still running after the call that started it was aborted',
  )
}

async function answersWithoutTheCA(on: Bench): Promise<boolean> {
  const requests = on.ca.requests
  await issue(on)
  return on.ca.requests === requests
}

export const cancellationCases: readonly LiveCase[] = [
  {
    group,
    name: 'a signal that is aborted already rejects with its reason',
    run: on => againIfLate(() => abortBefore(on)),
  },
  {
    group,
    name: 'an abort while the CSR is being made rejects with its reason at once',
    skip: unlessBringsKey,
    run: on => againIfLate(() => abortDuringCsr(on)),
  },
  {
    group,
    name: 'an abort in the same turn as the call ends it, and the next call works',
    run: on => againIfLate(() => abortInTheSameTurn(on)),
  },
]

export const inFlightCases: readonly BenchCase[] = [
  {
    group,
    name: 'an abort in flight rejects with its reason at once, and leaves the other calls alone',
    needs: ['hang'],
    run: on => againIfLate(() => abortOneOfTwo(on)),
  },
  {
    group,
    name: 'an abort in flight leaves no program running that the call started',
    needs: ['hang'],
    run: on => againIfLate(() => endProgramOnAbort(on)),
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
