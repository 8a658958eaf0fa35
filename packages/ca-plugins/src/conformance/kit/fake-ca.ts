/** A CA for the authors of plugins: it really signs, and misbehaves on request. It speaks no protocol: the authors' stand-in servers do. */
import 'reflect-metadata'
import { type CAChange, CAError, type Clock, isSpiffeId, pemToDer, type SpiffeId } from '@livery/core/plugin'
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from '@peculiar/x509'
import { CertificateAuthority } from '../../plugins/embedded/certificate-authority.ts'
import { answerInWords, type FakeCAAnswer, type FakeCARequest } from './fake-ca-answer.ts'
import type { CAFault } from './fake-ca-fault.ts'
import { createKeyMaterial } from './key-material.ts'

type Issued = Extract<FakeCAAnswer, { kind: 'issued' }>

export interface FakeCAOptions {
  readonly clock: Clock
  /** Default `cluster.local`. */
  readonly trustDomain?: string
  /** Default `true`. Otherwise its root signs the leaves itself. */
  readonly intermediates?: boolean | undefined
}

/** A key and its certificate, as a source that brings its own key would find them. */
export interface BroughtCertificate {
  readonly chain: readonly string[]
  readonly roots: readonly string[]
  /** PKCS#8 PEM. */
  readonly privateKey: Uint8Array
}

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** White space is part of any text. */
const PIECE = ' '.repeat(65_536)
/** An endless answer ends here if nobody reads that much. */
export const ENDLESS_BYTES = 33_554_432
const GARBAGE = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>'

/** Signs through two intermediates, or by its root. Each property is a switch: it holds from the next request on. */
export class FakeCA implements Disposable {
  /** How it treats each request, or a function that decides for each. */
  fault: CAFault | ((request: FakeCARequest & { readonly identity: SpiffeId }) => CAFault) = { kind: 'none' }
  /** The only token that it accepts; `undefined`: whatever comes, or none. */
  token: string | undefined
  /** The longest lifetime in seconds, and what becomes of a wish beyond it. */
  longest: { readonly seconds: number; readonly beyond: 'clamp' | 'refuse' } | undefined
  /** How far its clock is ahead of the agent's, in milliseconds. */
  skewMs = 0
  /** Whether it signs each CSR once, and then repeats its answer without a look at `fault`: thousands of requests are cheap then. */
  repeats = false
  readonly #authority: CertificateAuthority
  readonly #clock: Clock & { shiftMs: number }
  readonly #pending = new Map<string, { readonly request: FakeCARequest; decision?: 'approve' | 'deny' }>()
  readonly #signed = new Map<string, Promise<Issued>>()
  readonly #arrivals = new Set<() => void>()
  #released = Promise.withResolvers<void>()
  #requests = 0
  #last: { readonly answer: FakeCAAnswer; readonly inWords: string } | undefined
  #endlessBytes = 0

  private constructor(authority: CertificateAuthority, clock: Clock & { shiftMs: number }) {
    this.#authority = authority
    this.#clock = clock
  }

  static async create({ clock, trustDomain = 'cluster.local', intermediates = true }: FakeCAOptions): Promise<FakeCA> {
    const own = {
      shiftMs: 0,
      now: () => clock.now() + own.shiftMs,
      at: (time: number, task: () => void) => clock.at(time - own.shiftMs, task),
    }
    const authority = await CertificateAuthority.open({
      clock: own,
      trustDomain,
      intermediate: intermediates,
      upperIntermediate: intermediates,
    })
    return new FakeCA(authority, own)
  }

  get trustDomain(): string {
    return this.#authority.trustDomain
  }

  /** How many requests have arrived, without the requests for a ticket's result. */
  get requests(): number {
    return this.#requests
  }

  /** What it answered last, in words; `undefined` before the first answer. */
  get lastAnswer(): string | undefined {
    return this.#last?.inWords
  }

  /** How many certificates it answered with last. */
  get lastChainLength(): number {
    return this.#last?.answer.kind === 'issued' ? this.#last.answer.chain.length : 0
  }

  /** How many bytes of endless answers have been taken. */
  get endlessBytes(): number {
    return this.#endlessBytes
  }

  /** Resolves once `requests` requests have arrived, counted from the start. */
  async arrived(requests: number): Promise<void> {
    while (this.#requests < requests) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#arrivals.add(resolve)
      await promise
    }
  }

  /** Answers the requests that hang. */
  release(): void {
    this.#released.resolve()
    this.#released = Promise.withResolvers()
  }

  /** Never rejects. Resolves late where a fault says so. */
  async answer(request: FakeCARequest): Promise<FakeCAAnswer> {
    this.#requests++
    for (const wake of this.#arrivals) wake()
    this.#arrivals.clear()
    const answer = await this.#answerOrRefuse(request)
    this.#last = { answer, inWords: answerInWords(answer, request, this.token) }
    return answer
  }

  async #answerOrRefuse(request: FakeCARequest): Promise<FakeCAAnswer> {
    try {
      if (this.repeats) return await this.#signOnce(request)
      return await this.#answer({ ...request, identity: request.identity ?? identityOf(request.csr) })
    } catch (error) {
      if (!(error instanceof CAError) || error.code === 'timeout' || error.code === 'bad-response') throw error
      return { kind: 'refused', code: error.code, message: error.message }
    }
  }

  /** The answer to a request that was `pending`. */
  async collect(id: string): Promise<FakeCAAnswer> {
    const found = this.#pending.get(id)
    if (!found) return { kind: 'refused', code: 'denied', message: `there is no request ${id}` }
    if (found.decision === undefined) return { kind: 'pending', id }
    return found.decision === 'approve'
      ? this.#sign(found.request)
      : { kind: 'refused', code: 'denied', message: `request ${id} was denied` }
  }

  /** Approves or denies all requests that are pending. */
  decide(decision: 'approve' | 'deny'): void {
    for (const each of this.#pending.values()) each.decision ??= decision
  }

  /** Makes a new key with its certificate, for a source that brings keys. */
  async bring(identity: SpiffeId, ttlSeconds = 3600): Promise<BroughtCertificate> {
    const { csr, exportPrivateKey } = await createKeyMaterial(identity, 'ecdsa-p256')
    const { chain, roots } = await this.#sign({ csr: csr.der, identity, ttlSeconds })
    return { chain, roots, privateKey: exportPrivateKey() }
  }

  /** A certificate of the CA for the stand-in server itself, for `localhost` and 127.0.0.1. PEM. */
  async serverCertificate(): Promise<{ readonly cert: string; readonly key: string }> {
    const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
    const { chain, privateKey } = await this.#authority.issueServerCertificate(names, 86_400)
    return { cert: chain, key: privateKey }
  }

  /** Every root (PEM), the newest last. */
  trustBundle(): readonly string[] {
    return this.#authority.trustBundle()
  }

  /** Calls `listener` on new roots and on those given up, as a CA that pushes does. */
  subscribe(listener: (change: CAChange) => void): Disposable {
    return this.#authority.subscribe(listener)
  }

  /** Announces a second root. Nothing is signed under it yet. */
  async addRoot(): Promise<void> {
    await this.#authority.addRoot()
  }

  /** Signs under the newest root from now on. */
  async switchRoot(): Promise<void> {
    const newest = this.#authority.roots().at(-1)
    if (newest) await this.#authority.switchTo(newest.id)
  }

  /** Gives up all roots but the one that signs. */
  async dropOldRoots(): Promise<void> {
    for (const { id, signing } of this.#authority.roots()) if (!signing) await this.#authority.removeRoot(id)
  }

  [Symbol.dispose](): void {
    this.release()
    this.#pending.clear()
    this.#signed.clear()
  }

  *#endlessPieces(): Iterable<string> {
    for (let bytes = 0; bytes < ENDLESS_BYTES; bytes += PIECE.length) {
      this.#endlessBytes += PIECE.length
      yield PIECE
    }
  }

  async #answer(request: FakeCARequest & { readonly identity: SpiffeId }): Promise<FakeCAAnswer> {
    // The answer echoes the token, as some servers do: a plugin must not pass it on.
    if (this.token !== undefined && request.token !== this.token)
      return { kind: 'refused', code: 'unauthenticated', message: `token ${request.token ?? ''} has expired` }
    const fault = typeof this.fault === 'function' ? this.fault(request) : this.fault
    switch (fault.kind) {
      case 'refuse':
        return { message: `refused: ${fault.code}`, ...fault, kind: 'refused' }
      case 'garbage':
        return { kind: 'garbage', text: GARBAGE }
      case 'endless':
        return { kind: 'endless', pieces: this.#endlessPieces() }
      case 'reset':
        return { kind: 'reset' }
      case 'pending': {
        const id = `request-${this.#pending.size + 1}`
        this.#pending.set(id, { request })
        return { kind: 'pending', id }
      }
      case 'hang':
        await this.#released.promise
        return this.#sign(request)
      case 'delay':
        await new Promise<void>(resolve => this.#clock.at(this.#clock.now() + fault.ms, resolve))
        return this.#sign(request)
      default:
        return this.#signWrongly(request, fault)
    }
  }

  #signOnce(request: FakeCARequest): Promise<Issued> {
    // The CSR is not parsed: that is most of what a signature costs.
    const key = Buffer.from(request.csr).toString('latin1')
    const signed = this.#signed.get(key) ?? this.#sign(request)
    this.#signed.set(key, signed)
    return signed
  }

  async #signWrongly(request: FakeCARequest, fault: CAFault): Promise<Issued> {
    const ttlSeconds = request.ttlSeconds ?? 3600
    switch (fault.kind) {
      case 'wrong-san':
        return this.#sign({ ...request, identity: fault.identity })
      case 'wrong-key': {
        const { csr } = await createKeyMaterial(request.identity ?? identityOf(request.csr), 'ecdsa-p256')
        return this.#sign({ ...request, csr: csr.der })
      }
      case 'expired':
        return this.#sign({ ...request, ttlSeconds: 60 }, -DAY_MS)
      case 'not-yet-valid':
        return this.#sign(request, DAY_MS)
      case 'backdated':
        return this.#sign({ ...request, ttlSeconds: ttlSeconds + HOUR_MS / 1000 }, -HOUR_MS)
      default: {
        const issued = await this.#sign(request)
        return { ...issued, chain: wrongChain(issued, fault), truncated: fault.kind === 'truncated' }
      }
    }
  }

  async #sign(request: FakeCARequest, shiftMs = 0): Promise<Issued> {
    const { csr, identity = identityOf(csr) } = request
    const ttlSeconds = this.#lifetime(request.ttlSeconds ?? 3600)
    // The dates are fixed before the first pause.
    this.#clock.shiftMs = this.skewMs + shiftMs
    const signing = this.#authority.sign({ identity, csr: toDer(csr), ttlSeconds, mayHave: () => true })
    this.#clock.shiftMs = this.skewMs
    const { chain, root } = await signing
    return { kind: 'issued', chain, root, roots: this.trustBundle(), truncated: false }
  }

  #lifetime(wish: number): number {
    const { longest } = this
    if (longest === undefined || wish <= longest.seconds) return wish
    if (longest.beyond === 'clamp') return longest.seconds
    throw new CAError('ttl-too-long', `the lifetime of ${wish} s is longer than ${longest.seconds} s`)
  }
}

function wrongChain({ chain, root }: Issued, fault: CAFault): readonly string[] {
  switch (fault.kind) {
    case 'reversed':
      return chain.toReversed()
    case 'root-in-chain':
      return [...chain, root]
    case 'missing-intermediates':
      return chain.slice(0, 1)
    case 'empty-chain':
      return []
    default:
      return chain
  }
}

function toDer(csr: string | Uint8Array): Uint8Array {
  if (typeof csr !== 'string') return csr
  try {
    return pemToDer(csr)
  } catch (cause) {
    throw new CAError('invalid-csr', 'the certificate request is not PEM', { cause })
  }
}

function identityOf(csr: string | Uint8Array): SpiffeId {
  const [name] = namesOf(toDer(csr))
  if (name !== undefined && isSpiffeId(name)) return name
  throw new CAError('invalid-csr', 'the certificate request names no SPIFFE ID')
}

function namesOf(csr: Uint8Array): readonly string[] {
  try {
    // Copied, since the parser keeps views and a pooled Buffer's memory is reused.
    const { extensions } = new Pkcs10CertificateRequest(new Uint8Array(csr))
    const names = extensions.find(extension => extension instanceof SubjectAlternativeNameExtension)
    return names?.names.items.filter(({ type }) => type === 'url').map(({ value }) => value) ?? []
  } catch (cause) {
    throw new CAError('invalid-csr', 'the certificate request cannot be parsed', { cause })
  }
}
