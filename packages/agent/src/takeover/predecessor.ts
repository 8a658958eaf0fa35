/** The agent from which this one takes over: asked step by step for what it owns, over the socket in the store's directory. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface, type Interface } from 'node:readline'
import { systemErrorCode } from '@livery/core'
import { ownerSocket, parseAnswer, type Step } from './handover-steps.ts'

/** How long one step may take, milliseconds: the owner waits for its disk for 3 s at most. */
const STEP_MS = 15_000

/** Its connection stays open: by it the previous agent sees that this one lives. */
export class Predecessor implements Disposable {
  readonly #socket: Socket
  readonly #lines: Interface

  private constructor(socket: Socket) {
    this.#socket = socket
    // It passes on the errors of the socket.
    this.#lines = createInterface({ input: socket }).on('error', () => {})
    socket.on('error', () => {}).unref()
  }

  /** Resolves with `undefined` if no agent owns the store in this directory. */
  static async find(storeDirectory: string): Promise<Predecessor | undefined> {
    const socket = connect(ownerSocket(storeDirectory))
    try {
      await once(socket, 'connect')
      return new Predecessor(socket)
    } catch (error) {
      socket.destroy()
      // Nothing there, or left by an agent that was killed.
      if (['ENOENT', 'ECONNREFUSED'].includes(systemErrorCode(error) ?? '')) return undefined
      throw new Error(
        `Cannot take over: ${ownerSocket(storeDirectory)} cannot be reached (${systemErrorCode(error)})`,
        {
          cause: error,
        },
      )
    }
  }

  /** Resolves when the previous agent has done `step`; rejects with an `Error` that says why it has not. */
  async ask(step: Step): Promise<void> {
    if (this.#socket.destroyed) throw refused(step, 'it ended, or took everything back')
    const signal = AbortSignal.timeout(STEP_MS)
    const closed = once(this.#socket, 'close', { signal }).then(() => undefined)
    const answered = once(this.#lines, 'line', { signal }).then(([line]) => String(line))
    this.#socket.write(`${JSON.stringify({ step })}\n`)
    this.#socket.ref()
    const line = await Promise.race([answered, closed])
      .catch((cause: unknown) => {
        throw refused(step, `no answer within ${STEP_MS / 1_000} s`, cause)
      })
      .finally(() => this.#socket.unref())
    const answer = line === undefined ? { failed: 'it ended, or took everything back' } : parseAnswer(line)
    if ('failed' in answer) throw refused(step, answer.failed)
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
    this.#lines.close()
  }
}

function refused(step: Step, reason: string, cause?: unknown): Error {
  return new Error(`Cannot take over ("${step}") from the agent that owns the store: ${reason}`, { cause })
}
