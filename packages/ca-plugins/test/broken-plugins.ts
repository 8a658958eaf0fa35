/** Plugins that are wrong on purpose, each in one way: the suite must find it, and blame nothing else. */
import { generateKeyPairSync } from 'node:crypto'
import {
  type CACapabilities,
  type CAChange,
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type CertificateSigningRequest,
  type IssuedCertificate,
} from '@livery/core'
import type { ConformanceGroup } from '../src/conformance/conformance-case.ts'
import type { FakeCA, FakeCAAnswer } from '../src/conformance/fake-ca.ts'
import { createKeyMaterial } from '../src/conformance/key-material.ts'
import { ReferenceClient } from './reference-plugin.ts'

type Refused = Extract<FakeCAAnswer, { kind: 'refused' }>
type NewClient = new (ca: FakeCA, context: CAContext) => CAClient

export interface BrokenPlugin {
  /** As in "a plugin that …". */
  readonly that: string
  /** The groups that must go red; no other may. */
  readonly fails: readonly ConformanceGroup[]
  readonly client: NewClient
  /** Its calls hang where they should not. */
  readonly hangs?: true
  /** What it claims beside the reference's. */
  readonly claims?: Partial<CACapabilities>
}

/** What the reference would answer, changed. */
function answering(
  change: (issued: IssuedCertificate, request: CertificateRequest, ca: FakeCA) => IssuedCertificate,
): NewClient {
  return class extends ReferenceClient {
    protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest): Promise<IssuedCertificate> {
      return change(await super.toIssued(answer, request), request, this.ca)
    }
  }
}

/** What the reference would tell of a refusal, changed. */
function refusing(change: (answer: Refused) => Error): NewClient {
  return class extends ReferenceClient {
    protected override refusal(answer: Refused): Error {
      return change(answer)
    }
  }
}

/** Timers that a broken plugin left running; its test clears them. */
export const leakedTimers: NodeJS.Timeout[] = []

const inContract: readonly BrokenPlugin[] = [
  {
    that: 'cuts the newline off',
    fails: ['contract'],
    client: answering(({ chain, ...rest }) => ({ ...rest, chain: chain.map(pem => pem.trimEnd()) })),
  },
  {
    that: 'answers with the whole chain in one element',
    fails: ['contract'],
    client: answering(({ chain, ...rest }) => ({ ...rest, chain: [chain.join('')] })),
  },
  {
    that: 'answers with the leaf last',
    fails: ['contract'],
    client: answering(({ chain, ...rest }) => ({ ...rest, chain: chain.toReversed() })),
  },
  {
    that: 'leaves the root in the chain',
    fails: ['contract', 'answers'],
    client: answering(({ chain, roots }) => ({ chain: [...chain, ...(roots?.slice(-1) ?? [])] })),
  },
  {
    that: 'brings a key of its own beside the certificate',
    fails: ['contract'],
    client: answering(issued => ({ ...issued, privateKey: newPrivateKey() })),
  },
  {
    that: 'has a key of its own signed in place of the CSR',
    fails: ['contract', 'cancellation', 'parallel', 'batch', 'tickets'],
    client: class extends ReferenceClient {
      protected override async csr({ identity }: CertificateRequest): Promise<CertificateSigningRequest> {
        return (await createKeyMaterial(identity, 'ecdsa-p256')).csr
      }
    },
  },
  {
    that: 'wipes the CSR after use',
    fails: ['contract'],
    client: class extends ReferenceClient {
      protected override async submit(request: CertificateRequest, signal: AbortSignal): Promise<FakeCAAnswer> {
        const answer = await super.submit(request, signal)
        const { der } = await request.csr()
        der.fill(0)
        return answer
      }
    },
  },
  {
    that: 'answers all with its first certificate',
    fails: ['contract', 'ttl', 'roots'],
    client: class extends ReferenceClient {
      #last: IssuedCertificate | undefined
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        this.#last ??= await super.issue(request)
        return this.#last
      }
    },
  },
  {
    that: 'has a method that it does not claim',
    fails: ['contract'],
    client: class extends ReferenceClient {},
    claims: { roots: 'poll' },
  },
]

const inTtl: readonly BrokenPlugin[] = [
  {
    that: 'asks for an hour whatever is wished',
    fails: ['ttl'],
    client: class extends ReferenceClient {
      protected override send(csr: CertificateSigningRequest, _ttl: number, token: string): Promise<FakeCAAnswer> {
        return super.send(csr, 3600, token)
      }
    },
  },
  {
    that: 'rejects what the CA cut shorter',
    fails: ['ttl'],
    client: class extends ReferenceClient {
      protected override async send(csr: CertificateSigningRequest, ttl: number, token: string): Promise<FakeCAAnswer> {
        const clamps = this.ca.longest?.beyond === 'clamp' && ttl > this.ca.longest.seconds
        return clamps ? { kind: 'garbage', text: '' } : super.send(csr, ttl, token)
      }
    },
  },
]

const inErrors: readonly BrokenPlugin[] = [
  {
    that: 'tells a quota as an outage',
    fails: ['errors'],
    client: refusing(({ code, message: _message, ...rest }) =>
      newError(code === 'rate-limited' ? 'unavailable' : code, rest),
    ),
  },
  {
    that: 'throws its own errors',
    fails: ['ttl', 'errors', 'token', 'batch', 'tickets'],
    client: refusing(({ code }) => new Error(`HTTP error: ${code}`)),
  },
  {
    that: 'loses how long the CA asked to wait',
    fails: ['errors'],
    client: refusing(({ code }) => newError(code)),
  },
  {
    that: 'asks again by itself',
    fails: ['errors'],
    client: class extends ReferenceClient {
      protected override async send(csr: CertificateSigningRequest, ttl: number, token: string): Promise<FakeCAAnswer> {
        const answer = await super.send(csr, ttl, token)
        return answer.kind === 'refused' && answer.code === 'unavailable' ? super.send(csr, ttl, token) : answer
      }
    },
  },
]

const inAnswers: readonly BrokenPlugin[] = [
  {
    that: 'chokes on what it cannot parse',
    fails: ['answers'],
    client: class extends ReferenceClient {
      protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest): Promise<IssuedCertificate> {
        if (answer.kind === 'garbage') JSON.parse(answer.text)
        return super.toIssued(answer, request)
      }
    },
  },
  {
    that: 'passes an empty chain on',
    fails: ['answers'],
    client: class extends ReferenceClient {
      protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest): Promise<IssuedCertificate> {
        return answer.kind === 'issued' && answer.chain.length === 0 ? { chain: [] } : super.toIssued(answer, request)
      }
    },
  },
  {
    that: 'asks the CA again, kindly, for a certificate that it likes better',
    fails: ['answers'],
    client: class extends ReferenceClient {
      protected override async send(csr: CertificateSigningRequest, ttl: number, token: string): Promise<FakeCAAnswer> {
        const { fault } = this.ca
        if (typeof fault === 'function' || fault.kind !== 'expired') return super.send(csr, ttl, token)
        this.ca.fault = { kind: 'none' }
        return super.send(csr, ttl, token)
      }
    },
  },
]

const inCancellation: readonly BrokenPlugin[] = [
  {
    that: 'ignores the signal',
    fails: ['cancellation', 'tickets'],
    hangs: true,
    client: class extends ReferenceClient {
      override issue(request: CertificateRequest): Promise<IssuedCertificate> {
        return super.issue({ ...request, signal: new AbortController().signal })
      }
    },
  },
  {
    that: 'rejects an abort with an error of its own',
    fails: ['cancellation'],
    client: class extends ReferenceClient {
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        try {
          return await super.issue(request)
        } catch (error) {
          throw request.signal.aborted ? newError('unavailable') : error
        }
      }
    },
  },
]

const inParallel: readonly BrokenPlugin[] = [
  {
    that: 'makes one call after the other',
    fails: ['parallel'],
    hangs: true,
    client: class extends ReferenceClient {
      #last: Promise<unknown> = Promise.resolve()
      override issue(request: CertificateRequest): Promise<IssuedCertificate> {
        const issued = this.#last.then(() => super.issue(request))
        this.#last = issued.catch(() => {})
        return issued
      }
    },
  },
  {
    that: 'keeps the request that it works on in a field',
    fails: ['parallel', 'batch'],
    client: class extends ReferenceClient {
      #request: CertificateRequest | undefined
      protected override submit(request: CertificateRequest, signal: AbortSignal): Promise<FakeCAAnswer> {
        this.#request = request
        return super.submit(request, signal)
      }
      protected override csr(request: CertificateRequest): Promise<CertificateSigningRequest> {
        return Promise.resolve().then(() => (this.#request ?? request).csr())
      }
    },
  },
]

const inToken: readonly BrokenPlugin[] = [
  {
    that: 'keeps the token',
    fails: ['token'],
    client: class extends ReferenceClient {
      #token: string | undefined
      protected override async token(request: CertificateRequest, signal: AbortSignal): Promise<string> {
        this.#token ??= await super.token(request, signal)
        return this.#token
      }
    },
  },
  {
    that: 'looks at no tokenFile',
    fails: ['token'],
    client: class extends ReferenceClient {
      protected override token({ tokenFile: _tokenFile, ...request }: CertificateRequest, signal: AbortSignal) {
        return super.token(request, signal)
      }
    },
  },
  {
    that: 'quotes the CA, which quotes the token',
    fails: ['token'],
    client: refusing(({ code, message, ...rest }) => newError(code, rest, message)),
  },
]

const inRoots: readonly BrokenPlugin[] = [
  {
    that: 'asks for the roots once',
    fails: ['roots'],
    client: class extends ReferenceClient {
      #roots: readonly string[] | undefined
      override async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
        const roots = await super.trustBundle(options)
        this.#roots ??= roots
        return this.#roots
      }
    },
  },
  {
    that: 'tells the newest root only',
    fails: ['roots'],
    client: class extends ReferenceClient {
      override async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
        return (await super.trustBundle(options)).slice(-1)
      }
    },
  },
  {
    that: 'never drops a root',
    fails: ['roots'],
    client: class extends ReferenceClient {
      readonly #roots = new Set<string>()
      override async trustBundle(options: { readonly signal: AbortSignal }): Promise<readonly string[]> {
        for (const root of await super.trustBundle(options)) this.#roots.add(root)
        return [...this.#roots]
      }
    },
  },
  {
    that: 'never tells of new roots',
    fails: ['roots'],
    hangs: true,
    client: class extends ReferenceClient {
      override subscribe(): Disposable {
        return { [Symbol.dispose]() {} }
      }
    },
  },
]

const inSkew: readonly BrokenPlugin[] = [
  {
    that: 'refuses a certificate that begins in a minute',
    fails: ['skew'],
    client: class extends ReferenceClient {
      protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest): Promise<IssuedCertificate> {
        if (this.ca.skewMs > 0) throw newError('bad-response')
        return super.toIssued(answer, request)
      }
    },
  },
]

const inMemory: readonly BrokenPlugin[] = [
  {
    that: 'keeps the requests that it has answered',
    fails: ['memory'],
    client: class extends ReferenceClient {
      readonly #done: CertificateRequest[] = []
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        const issued = await super.issue(request)
        this.#done.push(request)
        return issued
      }
    },
  },
  {
    that: 'keeps the certificates that it has seen, as text',
    fails: ['memory'],
    client: class extends ReferenceClient {
      readonly #seen = new Set<string>()
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        const issued = await super.issue(request)
        for (const pem of issued.chain) this.#seen.add(pem)
        return issued
      }
    },
  },
]

const inBatch: readonly BrokenPlugin[] = [
  {
    that: 'answers a batch in the order in which answers came',
    fails: ['batch'],
    client: class extends ReferenceClient {
      override async issueBatch(requests: readonly CertificateRequest[]) {
        return (await super.issueBatch(requests)).toReversed()
      }
    },
  },
  {
    that: 'fails a batch for one of its requests',
    fails: ['batch'],
    client: class extends ReferenceClient {
      override issueBatch(requests: readonly CertificateRequest[]) {
        return Promise.all(requests.map(request => this.issue(request)))
      }
    },
  },
]

const inTickets: readonly BrokenPlugin[] = [
  {
    that: 'notes nothing on its ticket',
    fails: ['tickets'],
    hangs: true,
    client: class extends ReferenceClient {
      protected override wait(id: string, { ticket: _ticket, ...request }: CertificateRequest, signal: AbortSignal) {
        return super.wait(id, request, signal)
      }
    },
  },
  {
    that: 'makes a new request after a restart',
    fails: ['tickets'],
    hangs: true,
    client: class extends ReferenceClient {
      protected override ask({ ticket, ...request }: CertificateRequest, signal: AbortSignal) {
        const fresh = ticket && { kept: undefined, keep: (value: string | undefined) => ticket.keep(value) }
        return super.ask(fresh ? { ...request, ticket: fresh } : request, signal)
      }
    },
  },
]

const inHandlesAndClose: readonly BrokenPlugin[] = [
  {
    that: 'leaves a timer running',
    fails: ['handles'],
    hangs: true,
    client: class extends ReferenceClient {
      constructor(ca: FakeCA, context: CAContext) {
        super(ca, context)
        leakedTimers.push(setInterval(() => {}, 60_000))
      }
    },
  },
  {
    that: 'leaves a deadline waiting',
    fails: ['handles'],
    client: class extends ReferenceClient {
      constructor(ca: FakeCA, context: CAContext) {
        super(ca, context)
        context.clock.at(context.clock.now() + 3_600_000, () => {})
      }
    },
  },
  {
    that: 'works on after close',
    fails: ['close'],
    hangs: true,
    client: class extends ReferenceClient {
      override async [Symbol.asyncDispose](): Promise<void> {
        this.subscriptions.dispose()
      }
    },
  },
  {
    that: 'tells its subscribers after close',
    fails: ['close'],
    client: class extends ReferenceClient {
      override subscribe(listener: (change: CAChange) => void): Disposable {
        return this.ca.subscribe(listener)
      }
    },
  },
]

export const brokenPlugins: readonly BrokenPlugin[] = [
  ...inContract,
  ...inTtl,
  ...inErrors,
  ...inAnswers,
  ...inCancellation,
  ...inParallel,
  ...inToken,
  ...inRoots,
  ...inSkew,
  ...inMemory,
  ...inBatch,
  ...inTickets,
  ...inHandlesAndClose,
]

function newError(
  code: CAError['code'],
  { retryAfterMs }: { readonly retryAfterMs?: number } = {},
  message = 'The CA refused.',
): CAError {
  return new CAError(code, message, retryAfterMs === undefined ? {} : { retryAfterMs })
}

function newPrivateKey(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' }))
}
