/** Bounds each wait: a plugin that hangs fails its case, and does not hang the suite. */
import { AssertionError } from 'node:assert'
import { setImmediate } from 'node:timers/promises'
import { SystemClock } from '@livery/core/plugin'

/** It took too long. */
class LateError extends AssertionError {}

/** Settles as `promise` does; rejects with an `AssertionError`, which ends in `remedy`, if that takes longer than `patienceMs`. */
export async function inTime<T>(promise: Promise<T>, patienceMs: number, what: string, remedy = ''): Promise<T> {
  using clock = new SystemClock()
  const { promise: late, reject } = Promise.withResolvers<never>()
  clock.at(clock.now() + patienceMs, () =>
    reject(new LateError({ message: `${what} was still waited for after ${patienceMs} ms${remedy}` })),
  )
  return await Promise.race([promise, late])
}

/** Returns `promise`, which may fail unhandled: its case continues, and may fail before it awaits it. */
export function started<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

/** The reason that `promise` rejects with, in time; an `AssertionError` if it resolves. */
export async function rejection(
  promise: Promise<unknown>,
  patienceMs: number,
  what: string,
  remedy?: string,
): Promise<unknown> {
  const outcome = promise.then(
    value => ({ rejected: false as const, value }),
    (reason: unknown) => ({ rejected: true as const, reason }),
  )
  const settled = await inTime(outcome, patienceMs, what, remedy)
  if (settled.rejected) return settled.reason
  throw new AssertionError({ message: `${what} resolved${amountOf(settled.value)}; it should have been rejected` })
}

/** Only the number: a certificate may come with its key. */
function amountOf(value: unknown): string {
  const list = typeof value === 'object' && value !== null && 'chain' in value ? value.chain : value
  return Array.isArray(list) ? ` with ${list.length} certificates` : ''
}

/** Closes `client`, in time. */
export async function close(client: AsyncDisposable, patienceMs: number): Promise<void> {
  await inTime(Promise.resolve(client[Symbol.asyncDispose]()), patienceMs, 'close')
}

/** An abort needs no answer of the CA. The time allows for a busy machine. */
const ABORT_MS = 1_000
/** A busy machine answers late once, a plugin that waits does so each time. */
const ATTEMPTS = 3

/** The reason that `promise` rejects with at once; an `AssertionError` if it resolves or takes longer. */
export function rejectionAtOnce(promise: Promise<unknown>, patienceMs: number, what: string): Promise<unknown> {
  return rejection(promise, Math.min(patienceMs, ABORT_MS), what)
}

/** Runs `attempt` again if something in it was late, three times at most. */
export async function againIfLate(attempt: () => Promise<void>): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof LateError) || attempts === ATTEMPTS) throw error
    }
  }
}

/** Waits until `left` is empty; an `AssertionError` lists what is left after `patienceMs`. */
export async function expectNone(left: () => readonly string[], patienceMs: number, what: string): Promise<void> {
  using clock = new SystemClock()
  const end = clock.now() + patienceMs
  while (left().length > 0 && clock.now() < end) await setImmediate()
  const names = left()
  if (names.length > 0) throw new AssertionError({ message: `${what}: ${names.join('; ')}` })
}
