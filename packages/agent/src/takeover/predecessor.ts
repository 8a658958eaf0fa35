/** The previous agent, from which this one takes over step by step, over the socket in the store's directory. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface, type Interface } from 'node:readline'
import { MAX_SOCKET_PATH_BYTES, systemErrorCode, untilAborted } from '@livery/core/plugin'
import { ownerSocket, parseAnswer, type Step } from './handover-steps.ts'

/** How long one step may take, milliseconds: the owner waits for its disk for 3 s at most. */
const STEP_MS = 15_000

/** Its open connection shows the previous agent that this one lives. */
export class Predecessor implements Disposable {
  readonly #socket: Socket
  readonly #lines: Interface
  /** Aborted with the reason when the previous agent refuses to hand over, or to continue the handover. */
  readonly #refused = new AbortController()
  readonly #ended = Promise.withResolvers<void>()
  #hasEnded = false
  #answered: () => void = () => {}

  private constructor(socket: Socket) {
    this.#socket = socket
    // `readline` passes on the errors of the socket.
    this.#lines = createInterface({ input: socket }).on('error', () => {})
    this.#lines.on('line', line => this.#onLine(line))
    socket
      .on('error', () => {})
      .once('close', () => {
        this.#hasEnded = true
        this.#ended.resolve()
      })
      .unref()
  }

  /** Aborted, with an `Error`, when this agent must not serve in place of the previous one. */
  get refused(): AbortSignal {
    return this.#refused.signal
  }

  /** Resolves when the previous agent has ended, or refuses to hand over: nothing more is expected of it. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Resolves with `undefined` if no agent owns the store in this directory. */
  static async find(storeDirectory: string): Promise<Predecessor | undefined> {
    const path = ownerSocket(storeDirectory)
    // No agent can listen there.
    if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES) return undefined
    const socket = connect(path)
    try {
      await once(socket, 'connect')
      return new Predecessor(socket)
    } catch (error) {
      socket.destroy()
      // Nothing is there, or a killed agent left it.
      if (['ENOENT', 'ECONNREFUSED'].includes(systemErrorCode(error) ?? '')) return undefined
      throw new Error(`Cannot take over: ${path} cannot be reached (${systemErrorCode(error)})`, { cause: error })
    }
  }

  /**
   * Resolves when the previous agent has done `step`, or has ended: then this agent owns everything. Rejects with an `Error` that
   * states the reason.
   */
  async ask(step: Step): Promise<void> {
    this.#refused.signal.throwIfAborted()
    const done = Promise.withResolvers<void>()
    const late = setTimeout(() => this.#refuse(`no answer to "${step}" within ${STEP_MS / 1_000} s`), STEP_MS)
    this.#answered = done.resolve
    this.#socket.write(`${JSON.stringify({ step })}\n`)
    this.#socket.ref()
    try {
      await untilAborted(Promise.race([done.promise, this.#ended.promise]), this.#refused.signal)
    } finally {
      clearTimeout(late)
      this.#socket.unref()
    }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
    this.#lines.close()
  }

  #onLine(line: string): void {
    const answer = parseAnswer(line)
    if ('failed' in answer) this.#refuse(answer.failed)
    else this.#answered()
  }

  #refuse(reason: string): void {
    this.#refused.abort(new Error(`Cannot take over from the agent that owns the store: ${reason}`))
    this.#socket.destroy()
  }
}
