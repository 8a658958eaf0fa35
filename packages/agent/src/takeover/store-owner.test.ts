/** The two sides of a handover on a real socket, through the ends that neither of them has planned. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { listening, temporaryFolder } from '@livery/test-support'
import { pino } from 'pino'
import { ownerSocket } from './handover-steps.ts'
import { Predecessor } from './predecessor.ts'
import { StoreOwner } from './store-owner.ts'

/** An owner that notes each thing that it is asked to do. */
class Bench {
  readonly clock = new FakeClock()
  readonly done: string[] = []
  readonly directory: string
  readonly #waiting = new Set<() => void>()
  owner: StoreOwner | undefined
  hasLeft = false

  private constructor(directory: string) {
    this.directory = directory
  }

  static async create(t: TestContext): Promise<Bench> {
    const bench = new Bench(temporaryFolder(t))
    const owner = await bench.listen()
    bench.owner = owner
    t.after(() => owner[Symbol.asyncDispose]())
    return bench
  }

  listen(): Promise<StoreOwner> {
    const note = async (what: string) => this.#note(what)
    return StoreOwner.listen({
      directory: this.directory,
      isSuccessor: false,
      clock: this.clock,
      logger: pino(
        { base: null },
        new Writable({
          write: (line, _, next) => {
            if (String(line).includes('not all could be taken back')) this.#note('failed')
            next()
          },
        }),
      ),
      isServing: () => true,
      releaseStore: () => note('store released'),
      reclaimSockets: () => note('sockets reclaimed'),
      reclaim: () => this.#note('reclaimed'),
      onSucceeded: () => this.#note('succeeded'),
      stay: () => !this.hasLeft,
      onSuccessorGone: () => this.#note('gone'),
    })
  }

  async until(what: string): Promise<void> {
    while (!this.done.includes(what)) await this.next()
  }

  next(): Promise<void> {
    return new Promise(resolve => this.#waiting.add(resolve))
  }

  async find(): Promise<Predecessor> {
    const found = await Predecessor.find(this.directory)
    assert.ok(found)
    return found
  }

  #note(what: string): void {
    this.done.push(what)
    for (const look of this.#waiting) look()
    this.#waiting.clear()
  }
}

test('a successor that hangs is refused after a minute, and what it keeps is taken back when it has ended', async t => {
  const bench = await Bench.create(t)
  using successor = await bench.find()
  await successor.ask('store')
  await rm(ownerSocket(bench.directory))
  const hanging = await listening(createServer(), ownerSocket(bench.directory))
  const refused = once(successor.refused, 'abort')
  await bench.clock.advance(60_000)
  await refused
  await assert.rejects(successor.ask('serving'), /it does not serve after 60 s/)
  await bench.until('failed')
  assert.deepEqual(bench.done, ['store released', 'sockets reclaimed', 'failed'], 'no two write to the store')
  hanging.close()
  await once(hanging, 'close')
  await bench.clock.advance(1_000)
  await bench.until('reclaimed')
  using next = await bench.find()
  await next.ask('store')
  await next.ask('serving')
  assert.equal(bench.done.at(-1), 'succeeded')
})

test('an agent that ends in the middle of a handover leaves all to its successor', async t => {
  const bench = await Bench.create(t)
  using successor = await bench.find()
  await successor.ask('store')
  await bench.owner?.[Symbol.asyncDispose]()
  await successor.ask('serving')
  assert.equal(successor.refused.aborted, false)
  assert.ok(!bench.done.includes('reclaimed'))
})

test('an agent that ends before the first step has written all before its successor opens the store', async t => {
  const bench = await Bench.create(t)
  using successor = await bench.find()
  const ended = bench.owner?.[Symbol.asyncDispose]()
  const answer = await successor.ask('store').catch(String)
  await ended
  if (answer !== undefined) assert.match(answer, /it does not serve yet, or no longer/)
  assert.deepEqual([...new Set(bench.done)], ['store released'])
})

test('a successor that ends while its owner drains leaves it all, and one that ends later nothing', async t => {
  const bench = await Bench.create(t)
  const handOver = async (): Promise<void> => {
    using successor = await bench.find()
    await successor.ask('store')
    await successor.ask('serving')
  }
  await handOver()
  await bench.until('reclaimed')
  assert.deepEqual(bench.done, ['store released', 'succeeded', 'sockets reclaimed', 'reclaimed'])
  bench.done.length = 0
  bench.hasLeft = true
  await handOver()
  await bench.until('gone')
  assert.deepEqual(bench.done, ['store released', 'succeeded', 'gone'])
})

test('sockets that another successor has by then are left to it', async t => {
  const bench = await Bench.create(t)
  const successor = await bench.find()
  await successor.ask('store')
  await successor.ask('serving')
  await rm(ownerSocket(bench.directory))
  await using _next = createServer().listen(ownerSocket(bench.directory))
  successor[Symbol.dispose]()
  while (bench.done.length < 3) await bench.next()
  assert.deepEqual(bench.done, ['store released', 'succeeded', 'succeeded'])
})

test('a connection that asks for nothing, as one that only looks, keeps no successor away', async t => {
  const bench = await Bench.create(t)
  const idle = connect(ownerSocket(bench.directory))
  await once(idle, 'connect')
  using successor = await bench.find()
  await successor.ask('store')
  using third = await bench.find()
  await assert.rejects(third.ask('store'), /another agent is taking over already/)
  const lines = createInterface({ input: idle })
  const answered = once(lines, 'line')
  idle.write('{"step":"store"}\n')
  assert.deepEqual(JSON.parse(String(await answered)), { failed: 'another agent is taking over already' })
  await successor.ask('serving')
  assert.deepEqual(bench.done, ['store released', 'succeeded'])
})

test('where the path of the store is too long for a socket there is no agent to take over from', async () => {
  assert.equal(await Predecessor.find(join(tmpdir(), 'x'.repeat(120))), undefined)
})
