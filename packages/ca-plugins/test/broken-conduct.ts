/** Plugins whose answers are right, but who wait, keep or forget what they should not. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, watch } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import type {
  CAChange,
  CAContext,
  CertificateRequest,
  CertificateSigningRequest,
  IssuedCertificate,
} from '@livery/core/plugin'
import type { FakeCA } from '../src/conformance/kit/fake-ca.ts'
import type { FakeCAAnswer } from '../src/conformance/kit/fake-ca-answer.ts'
import { type BrokenPlugin, newError, refusing } from './broken-plugin.ts'
import { ReferenceClient } from './reference-plugin.ts'

/** Timers that a broken plugin left running; its test clears them. */
export const leakedTimers: NodeJS.Timeout[] = []
/** Descriptors that a broken plugin left open; its test closes them. */
export const leakedFiles: number[] = []

const inContract: readonly BrokenPlugin[] = [
  {
    that: 'waits for as long as it may, though the CA is there',
    fails: ['contract'],
    hangs: true,
    client: class extends ReferenceClient {
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        await setTimeout(request.connectWithinMs ?? 0, undefined, { ref: false })
        return await super.issue(request)
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

const LATE_MS = 1_500

/** As many plugins wrap a program of their CA: it is started for a call, and ended when it has answered. */
class ProgramClient extends ReferenceClient {
  protected start(options: SpawnOptions = {}): ChildProcess {
    return spawn(process.execPath, ['--eval', 'setTimeout(() => {}, 60_000)'], { stdio: 'ignore', ...options })
  }
}

const inCancellationWithPrograms: readonly BrokenPlugin[] = [
  {
    that: 'answers an abort 1.5 s late',
    fails: ['cancellation'],
    client: class extends ReferenceClient {
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        try {
          return await super.issue(request)
        } catch (error) {
          if (request.signal.aborted) await setTimeout(LATE_MS)
          throw error
        }
      }
    },
  },
  {
    that: 'leaves its program running after an abort',
    fails: ['cancellation'],
    client: class extends ProgramClient {
      override async issue(request: CertificateRequest): Promise<IssuedCertificate> {
        const program = this.start()
        const issued = await super.issue(request)
        program.kill()
        await once(program, 'exit')
        return issued
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
    fails: ['parallel'],
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
    that: 'lists the newest root only',
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
    that: 'never notifies of new roots',
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
        const fresh = ticket && { stored: undefined, store: (value: string | undefined) => ticket.store(value) }
        return super.ask(fresh ? { ...request, ticket: fresh } : request, signal)
      }
    },
  },
]

/** Watches a folder, and continues after it is closed. */
export class WatchingClient extends ReferenceClient {
  readonly watcher = watch(import.meta.dirname)
}

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
    that: 'leaves a timer running that does not keep the process alive',
    fails: ['handles'],
    client: class extends ReferenceClient {
      constructor(ca: FakeCA, context: CAContext) {
        super(ca, context)
        leakedTimers.push(setInterval(() => {}, 60_000).unref())
      }
    },
  },
  {
    that: 'leaves a file open',
    fails: ['handles'],
    client: class extends ReferenceClient {
      constructor(ca: FakeCA, context: CAContext) {
        super(ca, context)
        leakedFiles.push(openSync(import.meta.filename, 'r'))
      }
    },
  },
  {
    that: 'leaves a watcher open',
    fails: ['handles'],
    client: WatchingClient,
  },
  {
    that: 'leaves a detached program running',
    fails: ['handles'],
    client: class extends ProgramClient {
      constructor(ca: FakeCA, context: CAContext) {
        super(ca, context)
        this.start({ detached: true }).unref()
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
    that: 'notifies its subscribers after close',
    fails: ['close'],
    client: class extends ReferenceClient {
      override subscribe(listener: (change: CAChange) => void): Disposable {
        return this.ca.subscribe(listener)
      }
    },
  },
]

export const brokenConduct: readonly BrokenPlugin[] = [
  ...inContract,
  ...inCancellation,
  ...inCancellationWithPrograms,
  ...inParallel,
  ...inToken,
  ...inRoots,
  ...inSkew,
  ...inMemory,
  ...inTickets,
  ...inHandlesAndClose,
]
