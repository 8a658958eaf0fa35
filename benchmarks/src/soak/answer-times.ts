/** How long a workload waits for an answer on a stream that is open: asked every 50 ms, answer by answer. */
import type * as grpc from '@grpc/grpc-js'
import { discoveryRequest, readResponse } from './discovery-messages.ts'

const ASK_EVERY_MS = 50

export class AnswerTimes implements Disposable {
  readonly #timer: NodeJS.Timeout
  #times: number[] = []

  /** `stream` is its own; times count from its first answer on. */
  constructor(stream: grpc.ClientDuplexStream<Buffer, Buffer>, name: string) {
    let askedAt: number | undefined
    stream.on('data', (bytes: Buffer) => {
      const { version, nonce, secrets } = readResponse(bytes)
      stream.write(discoveryRequest(name, { version, nonce }))
      if (askedAt === undefined || secrets.length === 0) return
      this.#times.push(performance.now() - askedAt)
      askedAt = undefined
    })
    this.#timer = setInterval(() => {
      // One that waits for its answer is not asked twice.
      if (askedAt !== undefined) return
      askedAt = performance.now()
      stream.write(discoveryRequest(name))
    }, ASK_EVERY_MS)
  }

  /** Milliseconds, since they were last taken. */
  take(): readonly number[] {
    const times = this.#times
    this.#times = []
    return times
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
