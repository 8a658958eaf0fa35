import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { SharedRead } from './shared-read.ts'

/** Reads of files that end when the test says so. */
function controlledReads() {
  const begun: { readonly path: string; end(content: string): void; fail(error: Error): void }[] = []
  const shared = new SharedRead(path => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    begun.push({ path, end: resolve, fail: reject })
    return promise
  })
  const untilBegun = async (count: number) => {
    while (begun.length < count) await setImmediate()
  }
  return { shared, begun, untilBegun }
}

test('all who ask before a read begins share it, and who asks later gets one that began later', async () => {
  const { shared, begun, untilBegun } = controlledReads()
  const early = Array.from({ length: 1_000 }, () => shared.read('/token'))
  await untilBegun(1)
  const late = [shared.read('/token'), shared.read('/token')]
  for (let turn = 0; turn < 5; turn++) await setImmediate()
  assert.equal(begun.length, 1, 'no second read while one is under way')
  begun[0]?.end('old')
  assert.deepEqual(new Set(await Promise.all(early)), new Set(['old']))
  await untilBegun(2)
  begun[1]?.end('new')
  assert.deepEqual(await Promise.all(late), ['new', 'new'])
  assert.equal(begun.length, 2)
})

test('a read that fails fails for those who share it, and the next one is made', async () => {
  const { shared, begun, untilBegun } = controlledReads()
  const failing = [shared.read('/token'), shared.read('/token')].map(read => assert.rejects(read, /gone/))
  await untilBegun(1)
  const next = shared.read('/token')
  begun[0]?.fail(new Error('gone'))
  await Promise.all(failing)
  await untilBegun(2)
  begun[1]?.end('token')
  assert.equal(await next, 'token')
})

test('reads of different files do not wait for each other', async () => {
  const { shared, begun, untilBegun } = controlledReads()
  const both = [shared.read('/one'), shared.read('/two')]
  await untilBegun(2)
  assert.deepEqual(
    begun.map(({ path }) => path),
    ['/one', '/two'],
  )
  for (const { path, end } of begun) end(path)
  assert.deepEqual(await Promise.all(both), ['/one', '/two'])
})
