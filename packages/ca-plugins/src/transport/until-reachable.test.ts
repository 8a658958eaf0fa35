import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { FakeClock } from '@livery/core/testing'
import { freePort, listening } from '@livery/test-support'
import { Outage } from './outage.ts'
import { untilReachable } from './until-reachable.ts'

const WAIT_MS = 450
/** The pauses between the attempts, which add up to that wait. */
const PAUSES_MS = [50, 100, 100, 100, 100]

async function setUp() {
  const clock = new FakeClock()
  const outage = new Outage(clock, () => 0.5)
  const port = await freePort()
  const controller = new AbortController()
  const reach = () =>
    untilReachable(new URL(`https://127.0.0.1:${port}/v1`), {
      clock,
      ms: WAIT_MS,
      signal: controller.signal,
      outage,
    })
  /** Waits for the pause after a refused attempt, and lets it pass. */
  const pause = async (ms: number) => {
    await clock.waitForDeadline(time => time === clock.now() + ms)
    await clock.advance(ms)
  }
  return { clock, port, controller, reach, pause }
}

test('a server that is back is found by the next attempt, a tenth of a second after the last one', async () => {
  const { clock, port, reach, pause } = await setUp()
  const reached = reach()
  for (const ms of PAUSES_MS.slice(0, 3)) await pause(ms)
  await clock.waitForDeadline(time => time === clock.now() + 100)
  const server = await listening(createServer(), port)
  await clock.advance(100)
  await reached
  server.close()
  assert.deepEqual(clock.deadlines(), [])
})

test('the waiting ends with its time, and with its signal', async () => {
  const late = await setUp()
  const reached = late.reach()
  for (const ms of PAUSES_MS) await late.pause(ms)
  await reached
  const aborted = await setUp()
  const waiting = aborted.reach()
  await aborted.clock.waitForDeadline(time => time === aborted.clock.now() + 50)
  aborted.controller.abort(new Error('nobody waits'))
  await assert.rejects(waiting, /nobody waits/)
  assert.deepEqual([...late.clock.deadlines(), ...aborted.clock.deadlines()], [])
})

test('the next wait goes on with the pauses of a long outage, and a server that was reached begins with short ones', async () => {
  const { clock, port, reach, pause } = await setUp()
  const first = reach()
  for (const ms of PAUSES_MS) await pause(ms)
  await first
  await clock.advance(150_000 - WAIT_MS)
  const second = reach()
  await pause(300)
  await pause(150)
  await second
  const server = await listening(createServer(), port)
  await reach()
  server.close()
  await once(server, 'close')
  const third = reach()
  for (const ms of PAUSES_MS) await pause(ms)
  await third
})

/** Listens, and accepts nothing: the kernel answers no SYN once its queue of two is full. */
const SILENT_SERVER = `
const { parentPort } = require('node:worker_threads')
const server = require('node:net').createServer().listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
  parentPort.postMessage(server.address().port)
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))
})`

/** The port of a host that does not answer. */
async function silentPort(t: TestContext): Promise<number> {
  const worker = new Worker(SILENT_SERVER, { eval: true })
  t.after(() => worker.terminate())
  const [port]: number[] = await once(worker, 'message')
  assert.ok(port !== undefined)
  for (let place = 0; place < 2; place++) {
    const socket: Socket = connect(port, '127.0.0.1').on('error', () => {})
    t.after(() => socket.destroy())
    await once(socket, 'connect')
  }
  return port
}

test('an attempt that nobody answers is given up after 4 s, and another one follows', async t => {
  const clock = new FakeClock()
  const outage = new Outage(clock, () => 0.5)
  const port = await silentPort(t)
  const controller = new AbortController()
  const options = { clock, ms: 60_000, signal: controller.signal, outage }
  const waiting = untilReachable(new URL(`https://127.0.0.1:${port}`), options)
  await clock.waitForDeadline(() => true)
  assert.deepEqual(clock.deadlines(), [clock.now() + 4_000, clock.now() + 20_000])
  await clock.advance(4_000)
  await clock.waitForDeadline(time => time === clock.now() + 50)
  controller.abort(new Error('nobody waits'))
  await assert.rejects(waiting, /nobody waits/)
  assert.deepEqual(clock.deadlines(), [])
})
