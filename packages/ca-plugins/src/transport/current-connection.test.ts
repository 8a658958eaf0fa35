/** Which connection a call gets, and when each is closed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TlsMaterial } from '@livery/core/plugin'
import { CurrentConnection } from './current-connection.ts'

class Recorded {
  static readonly open = new Set<Recorded>()
  constructor() {
    Recorded.open.add(this)
  }
  close(): void {
    Recorded.open.delete(this)
  }
}

test('a connection made of files that have changed is closed when its last call ends', async () => {
  let material: TlsMaterial = {}
  await using current = new CurrentConnection(
    async () => material,
    () => new Recorded(),
  )
  const hanging = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<Recorded>()
  const first = current.use(connection => {
    begun.resolve(connection)
    return hanging.promise
  })
  const old = await begun.promise
  material = {}
  await current.use(async connection => assert.notEqual(connection, old))
  assert.ok(Recorded.open.has(old))
  hanging.resolve()
  await first
  assert.ok(!Recorded.open.has(old))
})

test('a call that still reads its files when all is closed opens nothing', async () => {
  const reading = Promise.withResolvers<TlsMaterial>()
  const current = new CurrentConnection(
    () => reading.promise,
    () => new Recorded(),
  )
  const late = assert.rejects(
    current.use(async () => assert.fail()),
    /the connection is closed/,
  )
  await current[Symbol.asyncDispose]()
  reading.resolve({})
  await late
  assert.equal(Recorded.open.size, 0)
})
