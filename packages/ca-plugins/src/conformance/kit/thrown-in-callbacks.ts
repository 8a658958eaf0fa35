/** What a callback throws, or a promise that nobody awaits, fails the case that runs. */
import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import { callerOutsideKit } from './opened-resources.ts'

/** Rejects with what is thrown meanwhile. The runner's listeners, which report the bare error, are off until then: one case at a time. */
export async function failByThrown(use: () => Promise<void>): Promise<void> {
  const { promise: thrown, reject } = Promise.withResolvers<never>()
  const fail = (error: unknown) => {
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : inspect(error, { depth: 0 })
    const place = error instanceof Error ? callerOutsideKit(error) : ''
    const message = `the plugin or the harness threw${place && `, at ${place},`} in a callback, or in a promise that it does not await, where no caller can catch it: ${reason}`
    reject(Object.assign(new AssertionError({ message }), { cause: error }))
  }
  const exceptions = process.listeners('uncaughtException')
  const rejections = process.listeners('unhandledRejection')
  process.removeAllListeners('uncaughtException').on('uncaughtException', fail)
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', fail)
  try {
    await Promise.race([use(), thrown])
  } finally {
    process.off('uncaughtException', fail).off('unhandledRejection', fail)
    for (const listener of exceptions) process.on('uncaughtException', listener)
    for (const listener of rejections) process.on('unhandledRejection', listener)
  }
}
