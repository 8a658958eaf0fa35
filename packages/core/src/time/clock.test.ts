import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { heapGrowth } from '../../test/heap-growth.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { type ClockJump, SystemClock } from './clock.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

test('tasks run in the order of their times, never inside the call that planned them', async () => {
  using clock = new SystemClock()
  const ran: string[] = []
  const now = clock.now()
  await new Promise<void>(resolve => {
    clock.at(now + 20, () => ran.push('later') && resolve())
    clock.at(now - 1_000, () => ran.push('overdue'))
    clock.at(now + 5, () => ran.push('soon'))
    assert.deepEqual(ran, [])
  })
  assert.deepEqual(ran, ['overdue', 'soon', 'later'])
})

test('only time in which the process waits for events is idle', async () => {
  using clock = new SystemClock()
  await new Promise<void>(resolve => void clock.at(clock.now() + 1, resolve))
  const before = clock.idle()
  for (const end = performance.now() + 100; performance.now() < end; );
  await setImmediate()
  assert.ok(clock.idle() - before < 50, `${clock.idle() - before} ms`)
  await new Promise<void>(resolve => void clock.at(clock.now() + 100, resolve))
  assert.ok(clock.idle() - before > 50, `${clock.idle() - before} ms`)
})

test('a disposed task never runs, and the rest still do', async () => {
  using clock = new SystemClock()
  await new Promise<void>((resolve, reject) => {
    clock.at(clock.now() + 10, resolve)
    clock.at(clock.now() + 5, () => reject(new Error('ran')))[Symbol.dispose]()
  })
})

test('a deadline ten years ahead neither fires at once nor overflows setTimeout', async () => {
  using clock = new SystemClock()
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  let fired = false
  clock.at(clock.now() + 3_650 * DAY_MS, () => {
    fired = true
  })
  await new Promise<void>(resolve => void clock.at(clock.now() + 20, resolve))
  process.off('warning', onWarning)
  assert.equal(fired, false)
  assert.deepEqual(warnings, [])
})

test('a clock without deadlines keeps no timer, so that the process can end', () => {
  using clock = new SystemClock()
  const before = process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length
  const deadline = clock.at(clock.now() + DAY_MS, () => {})
  assert.equal(process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length, before + 1)
  deadline[Symbol.dispose]()
  assert.equal(process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length, before)
})

test('a clock whose last live deadline has run keeps no timer for disposed ones', async () => {
  using clock = new SystemClock()
  const before = process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length
  const disposed = clock.at(clock.now() + DAY_MS, () => {})
  const ran = new Promise<void>(resolve => void clock.at(clock.now() + 5, resolve))
  disposed[Symbol.dispose]()
  await ran
  assert.equal(process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length, before)
})

test('a thousand deadlines in random order run sorted', async () => {
  using clock = new SystemClock()
  const start = clock.now() - 10_000
  const times: number[] = []
  await new Promise<void>(resolve => {
    for (let index = 0; index < 1_000; index++) {
      const time = start + ((index * 7_919) % 1_000)
      clock.at(time, () => {
        times.push(time)
        if (times.length === 1_000) resolve()
      })
    }
  })
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  )
})

test('disposed deadlines do not pile up until their time, and those between them still run', async () => {
  using clock = new SystemClock()
  const ran: number[] = []
  const done = Promise.withResolvers<void>()
  const growth = heapGrowth(() => {
    for (let index = 0; index < 200_000; index++) {
      clock.at(clock.now() + DAY_MS + index, () => assert.fail('a disposed task ran'))[Symbol.dispose]()
      if (index % 20_000 === 0) clock.at(index, () => ran.push(index) === 10 && done.resolve())
    }
  })
  assert.ok(growth < 5_000_000, `${growth} bytes are left`)
  await done.promise
  assert.deepEqual(
    ran,
    Array.from({ length: 10 }, (_, index) => index * 20_000),
  )
})

test('the fake clock runs what is due at its own time, also what a task plans in between', async () => {
  const clock = new FakeClock(0)
  const seen: number[] = []
  clock.at(100, () => {
    seen.push(clock.now())
    clock.at(150, () => seen.push(clock.now()))
  })
  await clock.advance(200)
  assert.deepEqual(seen, [100, 150])
  assert.equal(clock.now(), 200)
})

test('the fake clock jumps as a sleeping machine does: what was missed runs at the next tick', async () => {
  const clock = new FakeClock(0)
  const seen: number[] = []
  clock.at(100, () => seen.push(clock.now()))
  clock.jump(5_000)
  assert.deepEqual(seen, [])
  await clock.advance(0)
  assert.deepEqual(seen, [5_000])
})

/** A system clock whose two sources a test sets; its timers are real. */
function movable() {
  const state = { wall: Date.now(), monotonic: performance.now(), jumps: [] as ClockJump[] }
  const clock = new SystemClock({ wall: () => state.wall, monotonic: () => state.monotonic })
  clock.onJump(jump => state.jumps.push(jump))
  const tick = async () => await new Promise<void>(resolve => void clock.after(0, resolve))
  return { clock, state, tick }
}

for (const [name, wall, monotonic, kind] of [
  ['a sleep, which only the wall clock counts, is seen', HOUR_MS, 20, 'forward'],
  ['a clock that was set back is seen', -HOUR_MS, 20, 'back'],
  ['a process that did not run is seen, though both clocks agree', HOUR_MS, HOUR_MS, 'stopped'],
] as const)
  test(`${name} at the next tick`, async () => {
    const { clock, state, tick } = movable()
    using _ = clock
    await tick()
    clock.at(state.wall + 5 * DAY_MS, () => {})
    const ticked = tick()
    state.wall += wall
    state.monotonic += monotonic
    await ticked
    assert.equal(state.jumps.length, 1)
    assert.equal(state.jumps[0]?.kind, kind)
    assert.ok(Math.abs((state.jumps[0]?.ms ?? 0) - HOUR_MS) <= 100)
  })

test('time that passes as it does is not a jump', async () => {
  const { clock, state, tick } = movable()
  using _ = clock
  clock.at(state.wall + 5 * DAY_MS, () => {})
  for (let second = 0; second < 100; second++) {
    const ticked = tick()
    state.wall += 1_001
    state.monotonic += 1_000
    await ticked
  }
  assert.deepEqual(state.jumps, [])
})

test('what was set for after a while does not wait until a clock that was set back is there again', async () => {
  const { clock, state, tick } = movable()
  using _ = clock
  await tick()
  const ran: string[] = []
  clock.after(1_000, () => ran.push('after a while'))
  clock.at(state.wall + 1_000, () => ran.push('at a time'))
  let ticked = tick()
  state.wall -= HOUR_MS
  await ticked
  ticked = tick()
  state.wall += 1_000
  state.monotonic += 1_000
  await ticked
  assert.deepEqual(ran, ['after a while'])
})

test('what is set for after a while during a jump that is undone before it is seen runs after that while', async () => {
  const { clock, state, tick } = movable()
  using _ = clock
  await tick()
  clock.at(state.wall + 5 * DAY_MS, () => {})
  let ran = 0
  state.wall += HOUR_MS
  clock.after(1_000, () => ran++)
  state.wall -= HOUR_MS
  await tick()
  assert.deepEqual([ran, state.jumps.length], [0, 0])
  state.wall += 1_001
  state.monotonic += 1_001
  await tick()
  assert.equal(ran, 1)
})

test('and after that while where the jump stays', async () => {
  for (const jump of [HOUR_MS, -HOUR_MS]) {
    const { clock, state, tick } = movable()
    using _ = clock
    await tick()
    clock.at(state.wall + 5 * DAY_MS, () => {})
    let ran = 0
    state.wall += jump
    clock.after(1_000, () => ran++)
    await tick()
    assert.deepEqual([ran, state.jumps.length], [0, 1])
    state.wall += 1_001
    state.monotonic += 1_001
    await tick()
    assert.equal(ran, 1)
  }
})
