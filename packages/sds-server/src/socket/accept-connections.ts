/** Accepts all waiting connections of a listening socket at once, where the addon helps, and reports failures. */
import { closeSync } from 'node:fs'
import { type Server, Socket } from 'node:net'
import type { Clock } from '@livery/core'
import { descriptorOf } from './peer-descriptor.ts'

/**
 * Accepts at most `most` waiting connections of a listening socket. Returns their file descriptors, and as `error` the code
 * of the shortage that ended it (`EMFILE`).
 */
export type AcceptWaiting = (
  listener: number,
  most: number,
) => { readonly descriptors: readonly number[]; readonly error?: string }

/** About 8 ms of work, as long as a slice of pushes is. */
const MAX_ACCEPTED_TOGETHER = 64
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

export interface AcceptOptions {
  /** Named in messages. */
  readonly path: string
  readonly acceptWaiting?: AcceptWaiting | undefined
  onConnection(socket: Socket): void
  onFailure(error: unknown): void
}

/** Reports the first of a storm of failures: the cause is the same for the thousands of connections that come with it. */
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
 * Accepts the connections that wait behind the first, but not so many that open streams would wait for long. A failure of
 * one of them does not affect the others.
 */
export function acceptTogether(server: Server, first: Socket, options: AcceptOptions): void {
  const { path, acceptWaiting, onConnection, onFailure } = options
  handOver(first, onConnection, onFailure)
  const listener = descriptorOf(server)
  if (!acceptWaiting || listener === undefined) return
  const { descriptors, error } = acceptWaiting(listener, MAX_ACCEPTED_TOGETHER - 1)
  for (const fd of descriptors) {
    const socket = socketOf(fd, onFailure)
    if (socket) handOver(socket, onConnection, onFailure)
  }
  // Without descriptors libuv would close the next connection and report nothing.
  if (error !== undefined) onFailure(shortageError(path, error))
}

function handOver(socket: Socket, onConnection: (socket: Socket) => void, onFailure: OnFailure): void {
  try {
    onConnection(socket)
  } catch (error) {
    socket.destroy()
    onFailure(error)
  }
}

function socketOf(fd: number, onFailure: OnFailure): Socket | undefined {
  try {
    return new Socket({ fd })
  } catch (error) {
    closeSync(fd)
    onFailure(error)
    return undefined
  }
}

function shortageError(path: string, code: string): Error {
  const { cause, remedy } = SHORTAGES[code] ?? NO_MEMORY
  const message = `Cannot accept connections on ${path}: ${cause} (${code}), and new ones are refused; ${remedy}`
  return Object.assign(new Error(message), { code })
}
