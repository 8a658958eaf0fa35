/** What is open in this process: a client leaves nothing behind. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { SystemClock } from '@livery/core'

/** They come and go with every turn, whoever runs. */
const TRANSIENT = new Set([
  'Immediate',
  'FSReqCallback',
  'FSReqPromise',
  'GetAddrInfoReqWrap',
  'CloseReq',
  'ShutdownWrap',
])

export function openResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo())
    if (!TRANSIENT.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** Resolves once no more is open than `before`; an `AssertionError` that names what is, if that takes too long. */
export async function expectNoMoreOpen(before: ReadonlyMap<string, number>, patienceMs: number): Promise<void> {
  using clock = new SystemClock()
  const end = clock.now() + patienceMs
  // Sockets take some turns of the event loop until they are gone.
  while (leftOpen(before).length > 0 && clock.now() < end) await setImmediate()
  assert.deepEqual(leftOpen(before), [], 'after close these are still open, and keep the process alive')
}

/** What is open now and was not `before`. */
export function leftOpen(before: ReadonlyMap<string, number>): readonly string[] {
  return [...openResources()].filter(([kind, count]) => count > (before.get(kind) ?? 0)).map(([kind]) => kind)
}
