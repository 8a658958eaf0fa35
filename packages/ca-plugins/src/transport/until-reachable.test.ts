import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { freePort } from '../../test/free-port.ts'
import { untilReachable } from './until-reachable.ts'

const WAIT_MS = 5_000
const PAUSE_MS = 500

async function setUp() {
  const clock = new FakeClock()
  const port = await freePort()
  const controller = new AbortController()
  const reached = untilReachable(new URL(`https://127.0.0.1:${port}/v1`), {
    clock,
    ms: WAIT_MS,
    signal: controller.signal,
  })
  /** Until a refused attempt is followed by its pause. */
  const pauses = (ms = PAUSE_MS) => clock.waitForDeadline(time => time === clock.now() + ms)
  return { clock, port, controller, reached, pauses }
}

test('a server that is back is found by the next attempt, half a second after the last one', async () => {
  const { clock, port, reached, pauses } = await setUp()
  await pauses()
  await clock.advance(PAUSE_MS)
  await pauses()
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  await clock.advance(PAUSE_MS)
  await reached
  server.close()
  assert.deepEqual(clock.deadlines(), [])
})

test('the waiting ends with its time, and with its signal', async () => {
  const late = await setUp()
  for (let ms = 0; ms < WAIT_MS; ms += PAUSE_MS) {
    await late.pauses()
    await late.clock.advance(PAUSE_MS)
  }
  await late.reached
  const aborted = await setUp()
  await aborted.pauses()
  aborted.controller.abort(new Error('nobody waits'))
  await assert.rejects(aborted.reached, /nobody waits/)
  assert.deepEqual([...late.clock.deadlines(), ...aborted.clock.deadlines()], [])
})
