/** A signer as third parties write them: it approves and signs through the API, at a stand-in or a real API server. */
import 'reflect-metadata'
import { CertificatesV1Api, KubeConfig, type V1CertificateSigningRequest, Watch } from '@kubernetes/client-node'
import { isSpiffeId, pemToDer, type SpiffeId, untilAborted } from '@livery/core/plugin'
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from '@peculiar/x509'
import type { CertificateAuthority } from '../src/plugins/embedded/certificate-authority.ts'

const PATH = '/apis/certificates.k8s.io/v1/certificatesigningrequests'

interface KubeSignerOptions {
  /** Of somebody who may do all of this. */
  readonly kubeconfig: string
  readonly authority: CertificateAuthority
  /** {@link KubeSigner.run} handles the requests for this signer. */
  readonly signerName: string
  /** In place of what is asked for. */
  readonly ttlSeconds?: number
}

export class KubeSigner implements AsyncDisposable {
  readonly api: CertificatesV1Api
  /** How many certificates it has signed. */
  signed = 0
  readonly #options: KubeSignerOptions
  readonly #config = new KubeConfig()
  readonly #stop = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor(options: KubeSignerOptions) {
    this.#options = options
    this.#config.loadFromFile(options.kubeconfig)
    this.api = this.#config.makeApiClient(CertificatesV1Api)
  }

  /** Signs whatever comes, until it is disposed. */
  run(): this {
    this.#running = this.#watch()
    return this
  }

  read(name: string): Promise<V1CertificateSigningRequest> {
    return this.api.readCertificateSigningRequest({ name })
  }

  async delete(name: string): Promise<void> {
    await this.api.deleteCertificateSigningRequest({ name })
  }

  /** The names of the requests for this CSR. */
  async requestsFor(csrPem: string): Promise<readonly string[]> {
    const request = Buffer.from(csrPem).toString('base64')
    const { items } = await this.api.listCertificateSigningRequest()
    return items.filter(({ spec }) => spec.request === request).map(({ metadata }) => metadata?.name ?? '')
  }

  approve(name: string): Promise<void> {
    return this.#decide(name, 'Approved', 'approved by the test')
  }

  deny(name: string, message: string): Promise<void> {
    return this.#decide(name, 'Denied', message)
  }

  /** As a signer that will not sign. */
  async fail(name: string, message: string): Promise<void> {
    const body = await this.read(name)
    const failed = { type: 'Failed', status: 'True', reason: 'SignerValidationFailure', message }
    body.status = { ...body.status, conditions: [...(body.status?.conditions ?? []), failed] }
    await this.api.replaceCertificateSigningRequestStatus({ name, body })
  }

  async sign(name: string): Promise<void> {
    const body = await this.read(name)
    const csr = pemToDer(Buffer.from(body.spec.request, 'base64').toString())
    const ttlSeconds = this.#options.ttlSeconds ?? body.spec.expirationSeconds ?? 3600
    const { chain } = await this.#options.authority.sign({ identity: identityIn(csr), csr, ttlSeconds })
    body.status = { ...body.status, certificate: Buffer.from(chain.join('')).toString('base64') }
    await this.api.replaceCertificateSigningRequestStatus({ name, body })
    this.signed++
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the signer is stopped'))
    await this.#running
  }

  async #decide(name: string, type: string, message: string): Promise<void> {
    const body = await this.read(name)
    body.status = { ...body.status, conditions: [{ type, status: 'True', reason: 'Test', message }] }
    await this.api.replaceCertificateSigningRequestApproval({ name, body })
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stop
    const done = new Set<string>()
    while (!signal.aborted) {
      const ended = Promise.withResolvers<void>()
      const watching = await new Watch(this.#config).watch(
        PATH,
        {},
        (_, object) => void this.#look(object, done).catch(() => done.delete(object.metadata?.uid ?? '')),
        () => ended.resolve(),
      )
      await untilAborted(ended.promise, signal).catch(() => {})
      watching.abort()
    }
  }

  async #look({ metadata, spec, status }: V1CertificateSigningRequest, done: Set<string>): Promise<void> {
    const { name = '', uid = '' } = metadata ?? {}
    if (spec?.signerName !== this.#options.signerName || status?.certificate || done.has(uid)) return
    done.add(uid)
    await this.approve(name)
    await this.sign(name)
  }
}

function identityIn(csr: Uint8Array): SpiffeId {
  const { extensions } = new Pkcs10CertificateRequest(new Uint8Array(csr))
  const names = extensions.find(extension => extension instanceof SubjectAlternativeNameExtension)
  const identity = names?.names.items[0]?.value ?? ''
  if (isSpiffeId(identity)) return identity
  throw new Error(`Cannot sign for ${JSON.stringify(identity)}: it is not a SPIFFE ID`)
}
