/** A plugin that does all that the contract knows, at a fake CA in the same process, and that can be broken in its parts. */
import {
  type CACapabilities,
  type CAChange,
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type CertificateSigningRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core/plugin'
import type { FakeCA } from '../src/conformance/kit/fake-ca.ts'
import type { FakeCAAnswer } from '../src/conformance/kit/fake-ca-answer.ts'

export const REFERENCE_CAPABILITIES: CACapabilities = {
  roots: 'push',
  ttl: 'honoured',
  san: 'csr',
  dnsNames: true,
  keyTypes: ['ecdsa-p256', 'ecdsa-p384'],
  asynchronous: true,
}

/** How often a pending request is looked at. */
const LOOK_MS = 10
const TIMEOUT_MS = 60_000

/** Each method does one thing, so that a subclass can do that one wrong. */
export class ReferenceClient implements CAClient {
  protected readonly ca: FakeCA
  protected readonly context: CAContext
  protected readonly closing = new AbortController()
  protected readonly subscriptions = new DisposableStack()

  constructor(ca: FakeCA, context: CAContext) {
    this.ca = ca
    this.context = context
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const signal = AbortSignal.any([request.signal, this.closing.signal])
    signal.throwIfAborted()
    using deadline = new Deadline(this.context, TIMEOUT_MS)
    return await untilAborted(this.ask(request, signal), AbortSignal.any([signal, deadline.signal]))
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    signal.throwIfAborted()
    this.closing.signal.throwIfAborted()
    return this.ca.trustBundle()
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.closing.signal.throwIfAborted()
    return this.subscriptions.use(this.ca.subscribe(listener))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closing.abort(new CAError('unavailable', 'Cannot ask the CA: its client is closed.', { retryable: false }))
    this.subscriptions.dispose()
  }

  protected async ask(request: CertificateRequest, signal: AbortSignal): Promise<IssuedCertificate> {
    const { stored } = request.ticket ?? {}
    const answer = stored === undefined ? await this.submit(request, signal) : await this.ca.collect(stored)
    return this.toIssued(answer.kind === 'pending' ? await this.wait(answer.id, request, signal) : answer, request)
  }

  protected async submit(request: CertificateRequest, signal: AbortSignal): Promise<FakeCAAnswer> {
    const csr = await untilAborted(this.csr(request), signal)
    const token = await this.token(request, signal)
    signal.throwIfAborted()
    return this.send(csr, request.ttlSeconds, token)
  }

  protected csr(request: CertificateRequest): Promise<CertificateSigningRequest> {
    return request.csr()
  }

  protected async token({ tokenFile }: CertificateRequest, signal: AbortSignal): Promise<string> {
    const options = tokenFile === undefined ? { signal } : { signal, tokenFile }
    return (await this.context.credentials?.get(options))?.token ?? ''
  }

  protected send({ pem }: CertificateSigningRequest, ttlSeconds: number, token: string): Promise<FakeCAAnswer> {
    return this.ca.answer({ csr: pem, ttlSeconds, token })
  }

  protected async wait(id: string, { ticket }: CertificateRequest, signal: AbortSignal): Promise<FakeCAAnswer> {
    await ticket?.store(id)
    while (true) {
      const answer = await this.ca.collect(id)
      if (answer.kind !== 'pending') return answer
      await this.pause(signal)
    }
  }

  protected async pause(signal: AbortSignal): Promise<void> {
    using deadline = new Deadline(this.context, LOOK_MS)
    await untilAborted(new Promise<void>(resolve => deadline.signal.addEventListener('abort', () => resolve())), signal)
  }

  protected async toIssued(answer: FakeCAAnswer, { ticket }: CertificateRequest): Promise<IssuedCertificate> {
    if (answer.kind === 'refused') {
      await ticket?.store(undefined)
      throw this.refusal(answer)
    }
    if (answer.kind === 'endless') for (const _ of answer.pieces) break
    if (answer.kind === 'reset') throw new CAError('unavailable', 'The connection to the CA broke. It is asked again.')
    if (answer.kind !== 'issued' || answer.truncated || answer.chain.length === 0)
      throw new CAError('bad-response', 'The CA answered without a certificate. Check its address.')
    return { chain: answer.chain.filter(pem => pem !== answer.root), roots: answer.roots }
  }

  protected refusal({ code, retryAfterMs }: Extract<FakeCAAnswer, { kind: 'refused' }>): Error {
    return new CAError(code, `The CA refused: ${code}.`, retryAfterMs === undefined ? {} : { retryAfterMs })
  }
}

/** Aborts its signal at its time, unless it is disposed before. */
class Deadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #timer: Disposable

  constructor({ clock }: CAContext, ms: number) {
    this.#timer = clock.at(clock.now() + ms, () =>
      this.#controller.abort(new CAError('timeout', `The CA did not answer within ${ms} ms. It is asked again.`)),
    )
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]()
  }
}
