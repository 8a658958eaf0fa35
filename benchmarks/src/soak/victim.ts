/**
 * Measures every 50 ms how long a workload waits for an answer on an open stream. It is a separate process: the client stands
 * still for tenths of a second while it verifies thousands of secrets, and that is not the agent's time.
 */
import { discoveryRequest, readResponse } from './discovery-messages.ts'
import { connect, streamSecrets } from './secret-stream.ts'

export interface VictimOrder {
  readonly socket: string
  readonly name: string
}

/** Sent once a second. */
export interface VictimReport {
  /** Milliseconds, one per answer. */
  readonly answerTimes: readonly number[]
}

const ASK_EVERY_MS = 50
const REPORT_EVERY_MS = 1_000

process.once('disconnect', () => process.exit())
process.once('message', ({ socket, name }: VictimOrder) => {
  const stream = streamSecrets(connect(socket))
  let times: number[] = []
  /** Times count from the first answer on. */
  let askedAt: number | undefined
  stream.on('data', (bytes: Buffer) => {
    const { version, nonce, secrets } = readResponse(bytes)
    stream.write(discoveryRequest(name, { version, nonce }))
    if (askedAt === undefined || secrets.length === 0) return
    times.push(performance.now() - askedAt)
    askedAt = undefined
  })
  setInterval(() => {
    // The last request still waits for its answer.
    if (askedAt !== undefined) return
    askedAt = performance.now()
    stream.write(discoveryRequest(name))
  }, ASK_EVERY_MS)
  setInterval(() => {
    process.send?.({ answerTimes: times } satisfies VictimReport)
    times = []
  }, REPORT_EVERY_MS)
})
