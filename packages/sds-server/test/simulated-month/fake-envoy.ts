/** An Envoy on the stream state machines of the server, without a transport: it keeps what it accepted last, as Envoy does. */
import type { CertificateSecret, SecretItem, TrustBundleSecret } from '@livery/core'
import type { DiscoveryMessage, MessageComposer } from '../../src/protocol/discovery-message.ts'
import { SECRET_TYPE_URL } from '../../src/protocol/request-check.ts'
import { SotwStream } from '../../src/protocol/sotw-stream.ts'
import type { SecretView } from '../../src/protocol/subscriptions.ts'
import { testBudget } from '../test-budget.ts'

export interface EnvoyOptions {
  readonly view: SecretView
  readonly messages: MessageComposer
  readonly identity: string
  /** Whether it rejects this response. */
  readonly rejects: () => boolean
}

/** One stream for its certificate and one for the roots, as Envoy opens them. */
export class FakeEnvoy implements Disposable {
  readonly identity: string
  certificate: CertificateSecret | undefined
  roots: TrustBundleSecret | undefined
  /** It has rejected a certificate since it connected, so that it is offered none before the next. */
  hasRejected = false
  readonly #options: EnvoyOptions
  #streams: readonly SotwStream[] = []

  constructor(options: EnvoyOptions) {
    this.#options = options
    this.identity = options.identity
    this.connect()
  }

  /** Opens its streams again, and keeps what it has meanwhile. */
  connect(): void {
    this[Symbol.dispose]()
    this.hasRejected = false
    this.#streams = [
      this.#open(this.identity, item => {
        if (item.kind === 'certificate') this.certificate = item
      }),
      this.#open('ROOTCA', item => {
        if (item.kind === 'bundle') this.roots = item
      }),
    ]
  }

  [Symbol.dispose](): void {
    for (const stream of this.#streams) stream[Symbol.dispose]()
    this.#streams = []
  }

  #open(name: string, keep: (item: SecretItem) => void): SotwStream {
    const { view, messages } = this.#options
    const stream: SotwStream = new SotwStream({
      view,
      budget: testBudget(),
      maxNames: 1,
      messages,
      receipts: undefined,
      wake: () => queueMicrotask(() => this.#read(stream, name, keep)),
      report: () => {},
    })
    stream.receive(request(name))
    queueMicrotask(() => this.#read(stream, name, keep))
    return stream
  }

  #read(stream: SotwStream, name: string, keep: (item: SecretItem) => void): void {
    if (!this.#streams.includes(stream)) return
    for (let message = stream.take(); message; message = stream.take()) this.#answer(stream, name, message, keep)
  }

  #answer(stream: SotwStream, name: string, message: DiscoveryMessage, keep: (item: SecretItem) => void): void {
    // Envoy never rejects roots that it could read.
    const isRejected = name !== 'ROOTCA' && this.#options.rejects()
    if (isRejected) this.hasRejected = true
    else for (const { item } of message.resources) keep(item)
    stream.receive(request(name, message.nonce, isRejected))
  }
}

function request(name: string, responseNonce = '', isRejected = false): Parameters<SotwStream['receive']>[0] {
  return {
    versionInfo: '',
    node: { id: 'fake envoy', cluster: '' },
    typeUrl: SECRET_TYPE_URL,
    resourceNames: [name],
    responseNonce,
    errorDetail: isRejected ? { code: 13, message: 'not this one' } : undefined,
  }
}
