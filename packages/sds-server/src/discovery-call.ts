/** Joins the protocol of a stream to its gRPC call, with one message on its way at a time. */
import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { Clock } from '@livery/core'
import type { DiscoveryStream, StreamContext, StreamReport } from './discovery-protocol.ts'
import { toStatusError } from './grpc-status.ts'
import type { NackLimit } from './nack-limit.ts'
import type { Decoded } from './request-codec.ts'
import type { ConnectionInfo, SdsEvent, SdsMethod, StreamInfo } from './sds-event.ts'
import type { ResponseEncoder } from './secret-encoding.ts'
import { StreamRefusal } from './stream-refusal.ts'
import type { SecretView } from './subscriptions.ts'

export interface DiscoveryCallOptions<Request> {
  readonly id: number
  readonly method: SdsMethod
  readonly connection: ConnectionInfo
  readonly view: SecretView
  readonly maxNames: number
  readonly nackLimit: NackLimit
  readonly encoder: ResponseEncoder
  readonly clock: Clock
  createStream(context: StreamContext): DiscoveryStream<Request>
  nextNonce(): string
  report(report: StreamReport, stream: StreamInfo): void
  observe(event: SdsEvent): void
  onClose(): void
}

/** What the requests of both forms have in common here. */
export interface Answer {
  readonly errorDetail: { readonly message: string } | undefined
}

/** One open stream. A reader that is slow gets the newest state when it reads on, and is not read from until then. */
export class DiscoveryCall<Request extends Answer> {
  readonly #call: ServerDuplexStream<Decoded<Request>, Buffer>
  readonly #options: DiscoveryCallOptions<Request>
  readonly #stream: DiscoveryStream<Request>
  readonly #info: StreamInfo
  #state: 'idle' | 'writing' | 'ended' | 'closed' = 'idle'
  #status = { code: 0, details: '' }

  constructor(call: ServerDuplexStream<Decoded<Request>, Buffer>, options: DiscoveryCallOptions<Request>) {
    this.#call = call
    this.#options = options
    this.#stream = options.createStream({
      view: options.view,
      maxNames: options.maxNames,
      nextNonce: options.nextNonce,
      wake: () => this.#flush(),
      report: report => options.report(report, this.#info),
    })
    this.#info = liveInfo(options, this.#stream)
    options.observe({ kind: 'stream-opened', stream: this.info() })
    call.on('data', (decoded: Decoded<Request>) => this.#onRequest(decoded))
    call.on('end', () => this.#end())
    call.on('cancelled', () => this.#close())
    call.on('close', () => this.#close())
  }

  /** As it is now. */
  info(): StreamInfo {
    return { ...this.#info }
  }

  /** Ends the stream with a status; the peer will come again. */
  refuse(error: unknown): void {
    if (this.#state === 'ended' || this.#state === 'closed') return
    if (!(error instanceof StreamRefusal)) this.#options.observe({ kind: 'stream-failed', stream: this.info(), error })
    const statusError = toStatusError(error)
    this.#status = { code: statusError.code, details: statusError.details }
    this.#stop()
    this.#call.emit('error', statusError)
  }

  #onRequest(decoded: Decoded<Request>): void {
    if (this.#state === 'ended' || this.#state === 'closed') return
    try {
      if (decoded.kind === 'malformed')
        throw new StreamRefusal('invalid-argument', 'the message is no discovery request')
      if (decoded.request.errorDetail) this.#options.nackLimit.count()
      this.#stream.receive(decoded.request)
    } catch (error) {
      this.refuse(error)
      return
    }
    this.#flush()
    // Two requests must not share one answer, and a peer that does not read must not make us work.
    if (this.#isWriting()) this.#call.pause()
  }

  #flush(): void {
    if (this.#state !== 'idle') return
    try {
      const message = this.#stream.take()
      if (!message) return
      this.#state = 'writing'
      this.#call.write(this.#options.encoder.encode(message), () => this.#onWritten())
    } catch (error) {
      this.refuse(error)
    }
  }

  #isWriting(): boolean {
    return this.#state === 'writing'
  }

  /** grpc-js calls this when HTTP/2 has taken the message, which it does as far as the peer's window is open. */
  #onWritten(): void {
    if (this.#state !== 'writing') return
    this.#state = 'idle'
    this.#call.resume()
    this.#flush()
  }

  #end(): void {
    if (this.#state === 'ended' || this.#state === 'closed') return
    this.#stop()
    this.#call.end()
  }

  #stop(): void {
    this.#state = 'ended'
    this.#stream[Symbol.dispose]()
  }

  #close(): void {
    if (this.#state === 'closed') return
    const stream = this.info()
    this.#stop()
    this.#state = 'closed'
    const { code: status, details } = this.#status
    this.#options.observe({ kind: 'stream-closed', stream, status, details })
    this.#options.onClose()
  }
}

/** Made once a stream and read at each event: it tells what is true when it is read. */
function liveInfo(
  { id, method, connection, clock }: Pick<DiscoveryCallOptions<Answer>, 'id' | 'method' | 'connection' | 'clock'>,
  stream: { readonly nodeId: string; readonly names: number },
): StreamInfo {
  return {
    id,
    method,
    connection,
    openedAt: clock.now(),
    get node() {
      return stream.nodeId
    },
    get names() {
      return stream.names
    },
  }
}
