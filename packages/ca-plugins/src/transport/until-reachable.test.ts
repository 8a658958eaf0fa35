import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { freePort } from '../../test/free-port.ts'
import { Outage } from './outage.ts'
import { untilReachable } from './until-reachable.ts'

const WAIT_MS = 750
/** Until the attempts of that wait, the last of which are as far apart as the wait lasts. */
const PAUSES_MS = [50, 100, 200, 200, 200]

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
  /** Until a refused attempt is followed by its pause, which then passes. */
  const pause = async (ms: number) => {
    await clock.waitForDeadline(time => time === clock.now() + ms)
    await clock.advance(ms)
  }
  return { clock, port, controller, reach, pause }
}

test('a server that is back is found by the next attempt, a fifth of a second after the last one', async () => {
  const { clock, port, reach, pause } = await setUp()
  const reached = reach()
  for (const ms of PAUSES_MS.slice(0, 3)) await pause(ms)
  await clock.waitForDeadline(time => time === clock.now() + 200)
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  await clock.advance(200)
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
  await clock.advance(300_000 - WAIT_MS)
  const second = reach()
  await pause(600)
  await pause(150)
  await second
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  await reach()
  server.close()
  await once(server, 'close')
  const third = reach()
  for (const ms of PAUSES_MS) await pause(ms)
  await third
})
