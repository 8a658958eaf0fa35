/** Accepts all waiting connections of a listening socket at once, where the addon helps, and reports failures. */
import { closeSync } from 'node:fs'
import { type Server, Socket } from 'node:net'
import type { Clock } from '@livery/core/plugin'
import { descriptorOf } from './peer-descriptor.ts'

/**
 * Accepts at most `most` waiting connections of a listening socket. Returns their file descriptors, and as `error` the code
 * of the shortage that ended it (`EMFILE`).
 */
export type AcceptWaiting = (
  listener: number,
  most: number,
) => { readonly descriptors: readonly number[]; readonly error?: string }

/** Connections that are accepted between two readings of the clock. */
const ACCEPTED_TOGETHER = 64
/** The most time for accepting in one turn of the event loop: about as much as the rest of the turn takes under a flood. */
const ACCEPT_MS = 16
const FAILURE_INTERVAL_MS = 10_000
const SHORTAGES: Readonly<Record<string, { readonly cause: string; readonly remedy: string }>> = {
  EMFILE: {
    cause: 'the process has no file descriptor left',
    remedy: 'raise LimitNOFILE= of the unit, the ulimit of the container, or "ulimit -Hn", or lower limits.connections',
  },
  ENFILE: { cause: 'the machine has no file descriptor left', remedy: 'raise fs.file-max (sysctl)' },
}
const NO_MEMORY = { cause: 'the kernel has no memory for them', remedy: 'give the machine more' }

type OnFailure = (error: unknown) => void

/** An accepted connection. Closing it at once makes no Node socket, which would cost ten times as much. */
export interface Arrival {
  /** `undefined` once it is closed. */
  readonly descriptor: number | undefined
  /** Whether it can wait for `open`: a Node socket would read bytes meanwhile. */
  readonly canWait: boolean
  /** Call it once, instead of `close`. `undefined` if it failed, which is reported. */
  open(): Socket | undefined
  close(): void
}

interface AcceptOptions {
  /** Named in messages. */
  readonly path: string
  readonly acceptWaiting?: AcceptWaiting | undefined
  onArrival(arrival: Arrival): void
  onFailure(error: unknown): void
}

/** Adapts a listener that takes only sockets of Node. */
export function asSocket(onConnection: (socket: Socket) => void): (arrival: Arrival) => void {
  return arrival => {
    const socket = arrival.open()
    if (socket) onConnection(socket)
  }
}

/** Reports only the first of many failures: thousands of connections fail for one cause. */
export function failureReporter(clock: Clock, onFailure: OnFailure): OnFailure {
  let reportedAt = Number.NEGATIVE_INFINITY
  return error => {
    const now = clock.now()
    // A clock that was set back silences nothing.
    if (Math.abs(now - reportedAt) < FAILURE_INTERVAL_MS) return
    reportedAt = now
    onFailure(error)
  }
}

/**
 * Accepts all connections that wait behind the first, within the time bound: all callers share one queue in the kernel,
 * which a flood of one would fill. A failure of one does not affect the others.
 */
export function acceptTogether(server: Server, first: Socket, options: AcceptOptions): void {
  const { path, acceptWaiting, onFailure } = options
  handOver(new OpenArrival(first), options)
  const listener = descriptorOf(server)
  if (!acceptWaiting || listener === undefined) return
  const end = performance.now() + ACCEPT_MS
  let accepted = 0
  do {
    const { descriptors, error } = acceptWaiting(listener, ACCEPTED_TOGETHER)
    for (const fd of descriptors) handOver(new WaitingArrival(fd, onFailure), options)
    // libuv without descriptors would close the next connection and report nothing.
    if (error !== undefined) onFailure(shortageError(path, error))
    accepted = descriptors.length
  } while (accepted === ACCEPTED_TOGETHER && performance.now() < end)
}

function handOver(arrival: Arrival, { onArrival, onFailure }: AcceptOptions): void {
  try {
    onArrival(arrival)
  } catch (error) {
    arrival.close()
    onFailure(error)
  }
}

/** A connection that Node has accepted. */
class OpenArrival implements Arrival {
  readonly canWait = false
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
  }

  get descriptor(): number | undefined {
    return descriptorOf(this.#socket)
  }

  open(): Socket {
    return this.#socket
  }

  close(): void {
    this.#socket.destroy()
  }
}

class WaitingArrival implements Arrival {
  readonly canWait = true
  #state: number | Socket | undefined
  readonly #onFailure: OnFailure

  constructor(fd: number, onFailure: OnFailure) {
    this.#state = fd
    this.#onFailure = onFailure
  }

  get descriptor(): number | undefined {
    return typeof this.#state === 'number' ? this.#state : this.#state && descriptorOf(this.#state)
  }

  open(): Socket | undefined {
    if (typeof this.#state !== 'number') return this.#state
    try {
      this.#state = new Socket({ fd: this.#state })
      return this.#state
    } catch (error) {
      this.close()
      this.#onFailure(error)
      return undefined
    }
  }

  close(): void {
    if (typeof this.#state === 'number') closeSync(this.#state)
    else this.#state?.destroy()
    this.#state = undefined
  }
}

function shortageError(path: string, code: string): Error {
  const { cause, remedy } = SHORTAGES[code] ?? NO_MEMORY
  const message = `Cannot accept connections on ${path}: ${cause} (${code}), and new ones are refused; ${remedy}`
  return Object.assign(new Error(message), { code })
}
