/** A socket file whose path another process may have: it waits for the path, and appears there once it is free. */
import { after } from '@livery/core/plugin'
import { LiveOwnerError, SdsServerError } from './sds-server-error.ts'
import { SocketFile, type SocketFileOptions } from './socket-file.ts'

type Awaited = Omit<SocketFileOptions, 'signal'>

/** How soon a path on which another process listens is tried again. */
const RETRY_MS = 5_000

export class AwaitedSocketFile {
  readonly #options: Awaited
  readonly #closing = new AbortController()
  #opening: Promise<SocketFile> | undefined
  #file: SocketFile | undefined
  #waiting: { readonly error: Error; readonly retry: Disposable } | undefined
  #retrying: Promise<void> | undefined

  constructor(options: Awaited) {
    this.#options = options
  }

  /**
   * Makes the socket appear. While another process listens on the path it is `waiting`, and tries again every 5 s. Call it
   * once. Rejects with an `SdsServerError`, or the reason of the signal.
   */
  async listen(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#open(signal, this.#options)
    } catch (error) {
      if (!isTaken(error)) throw error
      this.#wait(error)
      this.#options.onEvent({ kind: 'socket-waiting', path: this.#options.path, error })
    }
  }

  /** See {@link SocketFile.reclaim}. A socket that waits takes its path, too. */
  async reclaim(): Promise<void> {
    await this.#retrying
    if (!this.#waiting) {
      await this.#file?.reclaim()
      return
    }
    this.#waiting.retry[Symbol.dispose]()
    await this.#retry({ ...this.#options, takeover: true })
  }

  get state(): SocketFile['state'] | 'waiting' {
    return this.#waiting ? 'waiting' : (this.#file?.state ?? 'closed')
  }

  /** Why it is `waiting`. */
  get failure(): Error | undefined {
    return this.#waiting?.error
  }

  /** Gives up waiting, or closes the file: see {@link SocketFile.close}. */
  async close(): Promise<void> {
    const { path } = this.#options
    this.#waiting?.retry[Symbol.dispose]()
    this.#waiting = undefined
    this.#closing.abort(new SdsServerError('closed', `Cannot listen on ${path}: it was closed before it could appear`))
    await this.#opening?.catch(() => {}) // listen() rejects with it
    await this.#file?.close()
  }

  async #open(signal: AbortSignal | undefined, options: Awaited): Promise<void> {
    const stop = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal
    this.#opening = SocketFile.listen({ ...options, signal: stop })
    this.#file = await this.#opening
    stop.throwIfAborted()
  }

  #wait(error: Error): void {
    const retry = after(this.#options.clock, RETRY_MS, () => {
      this.#retrying = this.#retry(this.#options)
    })
    this.#waiting = { error, retry }
  }

  /** Ignores every failure: the next attempt may succeed. */
  async #retry(options: Awaited): Promise<void> {
    const { path, onEvent } = options
    const before = this.#waiting?.error.message
    try {
      await this.#open(undefined, options)
      this.#waiting = undefined
      onEvent({ kind: 'socket-acquired', path })
    } catch (thrown) {
      if (this.#closing.signal.aborted) return
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      this.#wait(error)
      if (error.message !== before) onEvent({ kind: 'socket-waiting', path, error })
    }
  }
}

/** Whether another process has the path, which may end: the operator has nothing to correct here. */
function isTaken(error: unknown): error is LiveOwnerError {
  return error instanceof LiveOwnerError
}
