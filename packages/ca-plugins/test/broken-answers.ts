/** Plugins whose answers or errors are wrong. */
import { generateKeyPairSync } from 'node:crypto'
import type { CertificateRequest, CertificateSigningRequest, IssuedCertificate } from '@livery/core/plugin'
import type { FakeCAAnswer } from '../src/conformance/kit/fake-ca-answer.ts'
import { createKeyMaterial } from '../src/conformance/kit/key-material.ts'
import { answering, type BrokenPlugin, newError, refusing } from './broken-plugin.ts'
import { ReferenceClient } from './reference-plugin.ts'

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
    fails: ['contract', 'names', 'cancellation', 'parallel', 'tickets'],
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

const inNames: readonly BrokenPlugin[] = [
  {
    that: 'has a CSR without the names signed where names are asked for',
    fails: ['names'],
    client: class extends ReferenceClient {
      protected override async csr(request: CertificateRequest): Promise<CertificateSigningRequest> {
        return request.dnsNames ? (await createKeyMaterial(request.identity, 'ecdsa-p256')).csr : request.csr()
      }
    },
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
    that: 'reports a quota as an outage',
    fails: ['errors'],
    client: refusing(({ code, message: _message, ...rest }) =>
      newError(code === 'rate-limited' ? 'unavailable' : code, rest),
    ),
  },
  {
    that: 'throws its own errors',
    fails: ['ttl', 'errors', 'token', 'tickets'],
    client: refusing(({ code }) => new Error(`HTTP error: ${code}`)),
  },
  {
    that: 'loses how long the CA asked to wait',
    fails: ['errors'],
    client: refusing(({ code }) => newError(code)),
  },
  {
    that: 'asks again on its own',
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

export const brokenAnswers: readonly BrokenPlugin[] = [...inContract, ...inNames, ...inTtl, ...inErrors, ...inAnswers]

function newPrivateKey(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' }))
}
