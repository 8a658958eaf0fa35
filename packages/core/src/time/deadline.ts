/** Tasks after a while, pauses, and calls that must end in time: by a {@link Clock}, which a test can move. */
import type { Clock } from './clock.ts'

/** Runs `task` once, `ms` milliseconds from now, as {@link Clock.at} does; sooner if the machine sleeps, not later if the clock is set back. */
export function after(clock: Clock, ms: number, task: () => void): Disposable {
  return clock.after ? clock.after(ms, task) : clock.at(clock.now() + ms, task)
}

/** Resolves after `ms` milliseconds. Rejects with the reason of `signal` as soon as that is aborted. */
export async function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  using _timer = after(clock, ms, resolve)
  await (signal ? untilAborted(promise, signal) : promise)
}

export interface Deadline {
  readonly clock: Clock
  /** How long the task may take, milliseconds. */
  readonly ms: number
  /** The reason that the call rejects with after that time. */
  readonly error: () => Error
  /** Ends the task earlier, with its own reason. */
  readonly signal?: AbortSignal
}

/**
 * Settles as `task` does, or rejects as soon as the time is up or the signal is aborted. The signal that `task` gets is
 * aborted with the same reason; a task that ignores it continues unseen.
 */
export async function withDeadline<T>(
  { clock, ms, error, signal }: Deadline,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController()
  using _timer = after(clock, ms, () => ending.abort(error()))
  using _call = signal && abortWith(signal, ending)
  return await untilAborted(task(ending.signal), ending.signal)
}

/** Aborts `controller` with the reason of `signal`, until disposed. `AbortSignal.any` costs ten times as much. */
export function abortWith(signal: AbortSignal, controller: AbortController): Disposable {
  const onAbort = () => controller.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', onAbort) }
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    const stopListening = () => signal.removeEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
    promise.then(
      value => {
        stopListening()
        resolve(value)
      },
      error => {
        stopListening()
        reject(error)
      },
    )
  })
}
