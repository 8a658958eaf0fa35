/** An Envoy on the stream state machines of the server, without a transport: it keeps what it accepted last, as Envoy does. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { CertificateSecret, Receipts, SecretItem, TrustBundleSecret } from '@livery/core'
import { isFileName } from '@livery/core/file-secrets'
import { privateKeyOf } from '@livery/core/testing'
import { DeltaStream } from '../../src/protocol/delta-stream.ts'
import type { MessageComposer } from '../../src/protocol/discovery-message.ts'
import type { DiscoveryStream, StreamContext } from '../../src/protocol/discovery-protocol.ts'
import { type DiscoveryMessage, SECRET_TYPE_URL } from '../../src/protocol/response-content.ts'
import type { SecretSource, SecretView } from '../../src/protocol/secret-source.ts'
import { SotwStream } from '../../src/protocol/sotw-stream.ts'
import { Subscriptions } from '../../src/protocol/subscriptions.ts'
import { peerNode } from '../peer-node.ts'
import { testBudget } from '../test-budget.ts'

interface EnvoyOptions {
  readonly view: SecretView
  readonly source: Pick<SecretSource, 'watch' | 'request' | 'current'>
  readonly messages: MessageComposer
  readonly receipts: Receipts
  /** The SPIFFE ID or the name of the files of its certificate. */
  readonly name: string
  readonly form: keyof typeof FORMS
  /** Whether it rejects this response. */
  readonly rejects: () => boolean
  /** Called with what a server must not send. */
  readonly onFault: (fault: string) => void
}

/** One name on a stream. */
interface Subscription extends Disposable {
  readonly stream: DiscoveryStream<never>
  answer(nonce: string, isRejected: boolean): void
}

/** The forms of the protocol: `held` is the version that the Envoy has from an earlier stream. */
const FORMS = {
  sotw: (context: StreamContext, name: string): Subscription => {
    const subscriptions = new Subscriptions(context)
    const stream = new SotwStream(context, subscriptions)
    const ask = (responseNonce: string, isRejected: boolean) => {
      const resourceNames = [name]
      stream.receive({ ...NODE, versionInfo: '', resourceNames, responseNonce, errorDetail: errorIf(isRejected) })
    }
    ask('', false)
    return { stream, answer: ask, [Symbol.dispose]: () => subscriptions[Symbol.dispose]() }
  },
  delta: (context: StreamContext, name: string, held: string | undefined): Subscription => {
    const subscriptions = new Subscriptions(context)
    const stream = new DeltaStream(context, subscriptions)
    const none = { resourceNamesSubscribe: [], resourceNamesUnsubscribe: [], initialResourceVersions: {} }
    const initialResourceVersions = held === undefined ? {} : { [name]: held }
    const first = { ...none, resourceNamesSubscribe: [name], initialResourceVersions }
    stream.receive({ ...NODE, ...first, responseNonce: '', errorDetail: undefined })
    return {
      stream,
      answer: (responseNonce, isRejected) =>
        stream.receive({ ...NODE, ...none, responseNonce, errorDetail: errorIf(isRejected) }),
      [Symbol.dispose]: () => subscriptions[Symbol.dispose](),
    }
  },
}

const NODE = { node: peerNode('fake envoy'), typeUrl: SECRET_TYPE_URL }

function errorIf(isRejected: boolean): { code: number; message: string } | undefined {
  return isRejected ? { code: 13, message: 'not this one' } : undefined
}

/** One stream for its certificate and one for the roots, as Envoy opens them. */
export class FakeEnvoy implements Disposable {
  readonly name: string
  readonly form: EnvoyOptions['form']
  certificate: CertificateSecret | undefined
  roots: TrustBundleSecret | undefined
  /** It has rejected a certificate since it connected, so that it is offered none before the next. */
  hasRejected = false
  readonly #options: EnvoyOptions
  /** The secret that it accepted last, by the requested name. */
  readonly #held = new Map<string, string>()
  #open = new DisposableStack()

  constructor(options: EnvoyOptions) {
    this.#options = options
    this.name = options.name
    this.form = options.form
    this.connect()
  }

  /** Opens its streams again, and keeps what it has meanwhile. */
  connect(): void {
    this[Symbol.dispose]()
    this.#open = new DisposableStack()
    this.hasRejected = false
    for (const name of [this.name, 'ROOTCA']) this.#subscribe(name)
  }

  [Symbol.dispose](): void {
    this.#open[Symbol.dispose]()
  }

  #subscribe(name: string): void {
    const { view, source, messages, receipts, form } = this.#options
    const open = this.#open
    const read = () => {
      for (let next = open.disposed ? undefined : stream.take(); next; next = stream.take()) {
        answer(next.nonce, !this.#accepts(name, next))
      }
    }
    const context: StreamContext = {
      shared: { source, maxNames: 1, messages, clock: { now: () => 0 } },
      connection: { permission: view, budget: testBudget() },
      receipts: open.use(receipts.open(() => this.name)),
      wake: () => queueMicrotask(read),
      record: { report: () => {} },
    }
    const { stream, answer } = open.use(FORMS[form](context, name, this.#held.get(name)))
    queueMicrotask(read)
  }

  #accepts(name: string, { resources, removed }: DiscoveryMessage): boolean {
    for (const each of removed) this.#held.delete(each)
    const isRejected = name !== 'ROOTCA' && resources.length > 0 && this.#options.rejects()
    if (isRejected) this.hasRejected = true
    else for (const { item } of resources) this.#keep(name, item)
    return !isRejected
  }

  #keep(name: string, item: SecretItem): void {
    const { form, onFault } = this.#options
    if (form === 'delta' && this.#held.get(name) === item.version) onFault(`${name} was sent again`)
    this.#held.set(name, item.version)
    if (item.kind === 'bundle') this.roots = item
    if (item.kind !== 'certificate') return
    this.certificate = item
    // All identities have one key.
    if (isFileName(name) && !isPair(item)) onFault(`${name} came with the key of another`)
  }
}

function isPair(certificate: CertificateSecret): boolean {
  const leaf = new X509Certificate(certificate.certificateChain)
  return leaf.checkPrivateKey(createPrivateKey(privateKeyOf(certificate)))
}
