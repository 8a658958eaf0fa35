/** Plugins that are right in unusual ways. */
import { setImmediate, setTimeout } from 'node:timers/promises'
import {
  type CACapabilities,
  type CAClient,
  CAError,
  type CertificateRequest,
  derToPem,
  type IssuedCertificate,
  pemToDer,
} from '@livery/core/plugin'
import type { FakeCAAnswer } from '../src/conformance/kit/fake-ca-answer.ts'
import { answering, type BrokenPlugin, newError, refusing } from './broken-plugin.ts'
import { ReferenceClient } from './reference-plugin.ts'

type UnusualPlugin = Omit<BrokenPlugin, 'fails' | 'hangs'>

const POOL = 64

class QuotaError extends CAError {
  readonly quota = 'certificates a minute'
}

/** 76 characters a line, as MIME has it. */
function rewrapped(pem: string): string {
  const lines =
    pemToDer(pem)
      .toString('base64')
      .match(/.{1,76}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** What a client without roots has. */
class BareClient implements CAClient {
  readonly #client: ReferenceClient

  constructor(...[ca, context]: ConstructorParameters<typeof ReferenceClient>) {
    this.#client = new ReferenceClient(ca, context)
  }

  issue(request: CertificateRequest): Promise<IssuedCertificate> {
    return this.#client.issue(request)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#client[Symbol.asyncDispose]()
  }
}

const IGNORED: Partial<CACapabilities> = { ttl: 'ignored' }

export const unusualPlugins: readonly UnusualPlugin[] = [
  {
    that: 'answers late, but in time',
    client: class extends ReferenceClient {
      protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest) {
        await setTimeout(100)
        return super.toIssued(answer, request)
      }
    },
  },
  { that: 'brings no roots beside a certificate', client: answering(({ chain }) => ({ chain })) },
  {
    that: 'brings the newest root alone',
    client: answering(({ chain, roots = [] }, _request, ca) => ({
      chain,
      roots: roots.length > 1 && ca.trustBundle().length > 1 ? roots : roots.slice(-1),
    })),
  },
  { that: 'lists no roots and has no more methods than it must', client: BareClient, claims: { roots: 'none' } },
  {
    that: 'gets longer lives than it asks for',
    client: class extends ReferenceClient {
      protected override send(...[csr, ttl, token]: Parameters<ReferenceClient['send']>) {
        return super.send(csr, ttl + 3600, token)
      }
    },
    claims: IGNORED,
  },
  {
    that: 'gets shorter lives than it asks for',
    client: class extends ReferenceClient {
      protected override send(...[csr, ttl, token]: Parameters<ReferenceClient['send']>) {
        return super.send(csr, ttl / 2, token)
      }
    },
    claims: IGNORED,
  },
  {
    that: 'has a pool of 64 connections',
    client: class extends ReferenceClient {
      #open = 0
      protected override async send(...call: Parameters<ReferenceClient['send']>) {
        while (this.#open === POOL) await setImmediate()
        this.#open++
        try {
          return await super.send(...call)
        } finally {
          this.#open--
        }
      }
    },
  },
  {
    that: 'says with each refusal when to ask again',
    client: refusing(({ code, retryAfterMs = 1_000 }) => newError(code, { retryAfterMs })),
  },
  {
    that: 'wraps its PEM at 76 characters',
    client: answering(({ chain, ...rest }) => ({ ...rest, chain: chain.map(rewrapped) })),
  },
  {
    that: 'asks for the CSR twice',
    client: class extends ReferenceClient {
      protected override async csr(request: CertificateRequest) {
        const { der } = await request.csr()
        return { ...(await request.csr()), pem: derToPem(der, 'CERTIFICATE REQUEST') }
      }
    },
  },
  {
    that: 'polls for its answers',
    client: class extends ReferenceClient {
      protected override async send(...call: Parameters<ReferenceClient['send']>) {
        let answer: FakeCAAnswer | undefined
        const answering = super.send(...call).then(arrived => {
          answer = arrived
        })
        answering.catch(() => {})
        while (answer === undefined && !this.closing.signal.aborted) await setTimeout(5)
        this.closing.signal.throwIfAborted()
        return answer ?? { kind: 'reset' }
      }
    },
  },
  {
    that: 'answers with lists that nobody can change',
    client: answering(({ chain, roots = [] }) =>
      Object.freeze({ chain: Object.freeze([...chain]), roots: Object.freeze([...roots]) }),
    ),
  },
  {
    that: 'has errors of its own kind of CAError',
    client: refusing(
      ({ code, retryAfterMs }) =>
        new QuotaError(code, 'The CA refused.', retryAfterMs === undefined ? {} : { retryAfterMs }),
    ),
  },
]
