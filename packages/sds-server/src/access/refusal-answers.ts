/**
 * Answers callers that are not admitted with PERMISSION_DENIED, as a Workload API must, without an HTTP/2 session: it reads only
 * their preface and frame headers (https://www.rfc-editor.org/rfc/rfc9113).
 */
import type { Socket } from 'node:net'
import type { Clock } from '@livery/core/plugin'
import type { CallerAccount } from '../budget/caller-account.ts'
import { DeadlineQueue, type Late } from '../budget/deadline-queue.ts'
import { LeakyBucket, type Rate } from '../budget/leaky-bucket.ts'
import { SharedLimit } from '../budget/shared-limit.ts'

/** Connections at once, over all sockets. A caller may hold as many as remain free. */
const MAX_OPEN = 64
/** A refused pod has one connection, and returns after a second or later. */
const OF_CALLER: Rate = { perSecond: 10, burst: 50 }
const OF_PROCESS: Rate = { perSecond: 100, burst: 200 }
/** The time between the connection and its end. */
const WAIT_MS = 2_000
/** The bytes searched for calls: the first call follows a preface and three or four short frames, and others may follow it. */
const MAX_BEGUN = 1_024
/** The bytes read and dropped behind the calls: Envoy sends 61 kB, and could lose the answer if the connection closed earlier. */
const MAX_READ = 131_072

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const FRAME_HEAD = 9
const FRAME = { headers: 1, settings: 4, goAway: 7 } as const
const ACK = 1
const END_STREAM_AND_HEADERS = 5

const PERMISSION_DENIED = '7'
const REASON = 'this socket does not let in this caller: see its callers in the configuration, and the log of the agent'
const SETTINGS = frame(FRAME.settings, 0, 0, Buffer.alloc(0))
const SETTINGS_ACK = frame(FRAME.settings, ACK, 0, Buffer.alloc(0))
/** `:status: 200` by its index; the others as literals without one: https://www.rfc-editor.org/rfc/rfc7541#section-6.2.2 */
const TRAILERS_ONLY = Buffer.concat([
  Buffer.from([0x88]),
  literal('content-type', 'application/grpc'),
  literal('grpc-status', PERMISSION_DENIED),
  literal('grpc-message', REASON),
])

/** One for all sockets of a server, so that its bounds are sums. */
export class RefusalAnswers implements Disposable {
  readonly #clock: Clock
  readonly #room = new SharedLimit(MAX_OPEN)
  readonly #rate = new LeakyBucket()
  readonly #deadlines: DeadlineQueue
  readonly #open = new Set<Socket>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#deadlines = new DeadlineQueue(clock, WAIT_MS)
  }

  /** Answers on the socket that `open` returns and ends it; returns `false` if there is no room. */
  take(open: () => Socket | undefined, account: CallerAccount): boolean {
    const now = this.#clock.now()
    if (!this.#room.hasRoom(account.answers)) return false
    if (!account.answered.take(now, OF_CALLER) || !this.#rate.take(now, OF_PROCESS)) return false
    const socket = open()
    if (!socket) return false
    account.answers++
    this.#room.take()
    this.#open.add(socket)
    const late: Late = { onLate: () => socket.destroy() }
    this.#deadlines.add(late)
    socket.once('close', () => {
      account.answers--
      this.#room.giveBack()
      this.#open.delete(socket)
      this.#deadlines.delete(late)
    })
    answerCalls(socket)
    return true
  }

  [Symbol.dispose](): void {
    for (const socket of this.#open) socket.destroy()
    this.#deadlines[Symbol.dispose]()
  }
}

function answerCalls(socket: Socket): void {
  let begun: Buffer = Buffer.alloc(0)
  let isAnswered = false
  let read = 0
  // Clients call only once they have SETTINGS.
  socket.write(SETTINGS)
  socket.on('data', (chunk: Buffer) => {
    read += chunk.length
    if (!isAnswered) {
      begun = Buffer.concat([begun, chunk.subarray(0, MAX_BEGUN - begun.length)])
      const calls = isPreface(begun) ? callsIn(begun) : []
      isAnswered = calls.length > 0
      if (isAnswered) socket.end(refusalOf(calls))
      else if (!isPreface(begun) || begun.length === MAX_BEGUN) socket.destroy()
    }
    if (read > MAX_READ) socket.destroy()
  })
}

function isPreface(bytes: Buffer): boolean {
  return PREFACE.subarray(0, bytes.length).equals(bytes.subarray(0, PREFACE.length))
}

/** The streams whose HEADERS have begun. */
function callsIn(bytes: Buffer): readonly number[] {
  const calls: number[] = []
  for (let at = PREFACE.length; at + FRAME_HEAD <= bytes.length; at += FRAME_HEAD + bytes.readUIntBE(at, 3))
    if (bytes[at + 3] === FRAME.headers) calls.push(bytes.readUInt32BE(at + 5) & 0x7fff_ffff)
  return calls
}

/** A client repeats later calls on another connection. */
function refusalOf(calls: readonly number[]): Buffer {
  const lastCall = Buffer.alloc(8)
  lastCall.writeUInt32BE(Math.max(...calls))
  const answers = calls.map(call => frame(FRAME.headers, END_STREAM_AND_HEADERS, call, TRAILERS_ONLY))
  return Buffer.concat([SETTINGS_ACK, ...answers, frame(FRAME.goAway, 0, 0, lastCall)])
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(FRAME_HEAD)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Texts of fewer than 127 bytes, whose length is one byte. */
function literal(name: string, value: string): Buffer {
  const texts = [name, value].flatMap(text => [Buffer.from([text.length]), Buffer.from(text)])
  return Buffer.concat([Buffer.from([0]), ...texts])
}
