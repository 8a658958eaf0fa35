/** A client keeps nothing of the requests that it has answered. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isSpiffeId, type SpiffeId } from '@livery/core/plugin'
import { type Bench, type BenchCase, unlessBringsKey } from '../kit/conformance-case.ts'
import { inTime } from '../kit/in-time.ts'
import { createKeyMaterial, type KeyMaterial } from '../kit/key-material.ts'
import { type KitRequest, kitRequest } from '../kit/kit-request.ts'

const group = 'memory'

const SIGNS = 500
/** Signatures by a CA that repeats its answers, which costs little. */
const REPEATED_SIGNS = 3_000
const AT_ONCE = 16
/** As many identities as a node has pods; requests repeat them, as renewals do. */
const IDENTITIES = 50
/** The length of a SPIFFE ID's path, with which one kept certificate weighs 4 kB. */
const PATH_LENGTH = 1_500
/** A pool and the last answers hold some. */
const MAX_SURVIVORS = 48
/** A chain that is kept weighs over four times as much, the noise of a heap under load a tenth. */
const MAX_BYTES_A_SIGN = 1_000
/** The shortest text that is kept weighs as much; the noise is a tenth over all these signatures. */
const MAX_BYTES_A_REPEATED_SIGN = 40
/** A leak repeats; noise does not, and a heap that shrinks has not settled yet. */
const MEASUREMENTS = 5
const REMEDY =
  'often by a listener left on a signal: use untilAborted of @livery/core/plugin, or Closable of @livery/ca-plugins/support'

interface Worker {
  readonly identity: SpiffeId
  readonly material: KeyMaterial
}

export const memoryCases: readonly BenchCase[] = [
  {
    group,
    name: 'requests and answers are let go of, by the hundred',
    run: on => expectNothingKept(on, SIGNS, MAX_BYTES_A_SIGN),
  },
  {
    group,
    name: 'not even a short text is kept of a request, by the thousand',
    needs: ['load'],
    slow: true,
    skip: unlessBringsKey,
    async run(on) {
      on.ca.repeats = true
      await expectNothingKept(on, REPEATED_SIGNS, MAX_BYTES_A_REPEATED_SIGN)
    },
  },
]

async function expectNothingKept(on: Bench, signs: number, maxBytes: number): Promise<void> {
  const workers = await createWorkers(on)
  const collect = exposeGc()
  await signMany(on, workers, signs / 4)
  let survivors = 0
  const growths: number[] = []
  for (let round = 0; round < MEASUREMENTS; round++) {
    const before = await heapAfter(collect)
    const references = await signMany(on, workers, signs)
    survivors = await countSurvivors(references, collect)
    references.length = 0
    growths.push(Math.round(((await heapAfter(collect)) - before) / signs))
    if (survivors <= MAX_SURVIVORS && Math.abs(growths.at(-1) ?? 0) <= maxBytes) return
  }
  assert.ok(
    survivors <= MAX_SURVIVORS,
    `${survivors} requests or answers were kept after they were answered, ${REMEDY}`,
  )
  assert.fail(`memory grew by ${growths.join(', then ')} bytes with each certificate, ${REMEDY}`)
}

async function createWorkers(on: Bench): Promise<readonly Worker[]> {
  const identities = on.capabilities.bringsKey
    ? on.identities
    : Array.from({ length: IDENTITIES }, (_, index) => longIdentity(on.ca.trustDomain, index))
  const workers: Worker[] = []
  for (const identity of identities)
    workers.push({ identity, material: await createKeyMaterial(identity, 'ecdsa-p256') })
  return workers
}

function longIdentity(trustDomain: string, index: number): SpiffeId {
  const identity = `spiffe://${trustDomain}/ns/conformance/sa/${`sa-${index}-`.padEnd(PATH_LENGTH, 'x')}`
  if (!isSpiffeId(identity)) throw new TypeError(`Cannot use the trust domain ${trustDomain}: it is too long`)
  return identity
}

/** Weak references to the requests and the answers, two a sign. */
async function signMany(on: Bench, workers: readonly Worker[], signs: number): Promise<WeakRef<object>[]> {
  const references: WeakRef<object>[] = []
  let next = 0
  const work = async () => {
    while (next < signs) {
      const worker = workers[next++ % workers.length]
      if (!worker) return
      references.push(...(await signOnce(on, worker)))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return references
}

async function signOnce(on: Bench, worker: Worker): Promise<readonly WeakRef<object>[]> {
  const request: KitRequest = await kitRequest(on, worker)
  const issued = await inTime(on.client.issue(request), on.patienceMs, 'issue()')
  return [new WeakRef(request), new WeakRef(issued)]
}

async function countSurvivors(references: readonly WeakRef<object>[], collect: () => void): Promise<number> {
  let survivors = references.length
  // An object that only a finaliser holds takes more than one collection.
  for (let attempt = 0; attempt < 5 && survivors > MAX_SURVIVORS; attempt++) {
    await settle(collect)
    survivors = new Set(references.map(reference => reference.deref())).size - 1
  }
  return survivors
}

async function heapAfter(collect: () => void): Promise<number> {
  for (let attempt = 0; attempt < 3; attempt++) await settle(collect)
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

async function settle(collect: () => void): Promise<void> {
  // A WeakRef that was looked at lives until the end of its turn.
  await setImmediate()
  collect()
  await setImmediate()
}

/** The collector, in a process that was started without `--expose-gc` too. */
function exposeGc(): () => void {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  assert.ok(typeof collect === 'function', 'this runtime lets nobody collect garbage')
  return () => void collect()
}
