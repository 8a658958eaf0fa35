import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedWork } from './shared-work.ts'

test('waiting callers share one run, which starts after they arrived', async () => {
  let runs = 0
  const work = new SharedWork(() => ++runs, 10)
  assert.deepEqual(await Promise.all([work.result(), work.result(), work.result()]), [1, 1, 1])
  assert.equal(await work.result(), 2)
})

test('a caller that arrives during a run gets the next run', async () => {
  const gates = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  const begun = Promise.withResolvers<void>()
  let runs = 0
  const work = new SharedWork(() => {
    begun.resolve()
    return gates[runs++]?.promise ?? 'third'
  }, 10)
  const first = work.result()
  await begun.promise
  const second = work.result()
  gates[0]?.resolve('old')
  gates[1]?.resolve('new')
  assert.deepEqual([await first, await second], ['old', 'new'])
})

test('however often it is asked for, it takes a tenth of the time', async () => {
  const starts: number[] = []
  const work = new SharedWork(() => {
    starts.push(performance.now())
    while (performance.now() - (starts.at(-1) ?? 0) < 4) {}
  }, 10)
  for (let run = 0; run < 4; run++) await work.result()
  const [first = 0, last = 0] = [starts[0], starts.at(-1)]
  assert.ok(last - first >= 3 * 40 * 0.95, `${last - first} ms for three runs of 4 ms and their rests`)
})

test('a run that takes many turns of the event loop is never doubled', async () => {
  let running = 0
  let most = 0
  const work = new SharedWork(async () => {
    most = Math.max(most, ++running)
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    running--
  }, 100)
  const asked: (Promise<void> | undefined)[] = []
  for (let turn = 0; turn < 20; turn++) {
    asked.push(work.result())
    await new Promise(setImmediate)
  }
  await Promise.all(asked)
  assert.equal(most, 1)
})

test('a failure reaches everybody who waited, and the next run is a new one', async () => {
  let runs = 0
  const work = new SharedWork(() => {
    if (++runs === 1) throw new Error('broken')
    return runs
  }, 10)
  const results = await Promise.allSettled([work.result(), work.result()])
  assert.deepEqual(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  assert.equal(await work.result(), 2)
})

test('callers over the limit get undefined at once', async () => {
  const work = new SharedWork(() => 'done', 2)
  const waiting = [work.result(), work.result()]
  assert.equal(work.result(), undefined)
  assert.deepEqual(await Promise.all(waiting), ['done', 'done'])
  assert.equal(await work.result(), 'done')
})
