/** Waiting for what must not take long: a plugin that hangs fails its case, and does not hang the suite. */
import { AssertionError } from 'node:assert'
import { SystemClock } from '@livery/core'

/** Settles as `promise` does; rejects with an `AssertionError` if that takes longer than `patienceMs`. */
export async function inTime<T>(promise: Promise<T>, patienceMs: number, what: string): Promise<T> {
  using clock = new SystemClock()
  const { promise: late, reject } = Promise.withResolvers<never>()
  clock.at(clock.now() + patienceMs, () =>
    reject(new AssertionError({ message: `${what} was still waited for after ${patienceMs} ms` })),
  )
  return await Promise.race([promise, late])
}

/** `promise`, which may fail unseen: its case goes on, and may fail before it comes back to it. */
export function started<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

/** The reason that `promise` rejects with, in time; an `AssertionError` if it resolves. */
export async function rejection(promise: Promise<unknown>, patienceMs: number, what: string): Promise<unknown> {
  const outcome = promise.then(
    () => ({ rejected: false as const }),
    (reason: unknown) => ({ rejected: true as const, reason }),
  )
  const settled = await inTime(outcome, patienceMs, what)
  if (settled.rejected) return settled.reason
  throw new AssertionError({ message: `${what} resolved; it should have been rejected` })
}

/** Closes `client`, in time. */
export async function close(client: AsyncDisposable, patienceMs: number): Promise<void> {
  await inTime(Promise.resolve(client[Symbol.asyncDispose]()), patienceMs, 'close')
}
