/** The conformance kit, at a stand-in API server whose signer is the kit's CA. */
import { test } from 'node:test'
import { KubeApiServer, type KubeFault } from '../../../test/kube-api-server.ts'
import { KubeObjects, type StoredObject } from '../../../test/kube-objects.ts'
import { kubeconfigFile, SIGNER } from '../../../test/kube-setup.ts'
import {
  type ConformanceSetup,
  type FakeCA,
  type FakeCAAnswer,
  type RefusalCode,
  suite,
} from '../../conformance/index.ts'
import { createKubernetesCsr } from './create-kubernetes-csr.ts'
import { kubernetesCsr } from './index.ts'

const RESOURCE = 'certificatesigningrequests'
const STATUS: Readonly<Record<Exclude<RefusalCode, 'denied' | 'ttl-too-long'>, number>> = {
  unauthenticated: 401,
  'invalid-csr': 422,
  'rate-limited': 429,
  unavailable: 503,
}
/** The state that outlives a server, as etcd does. */
const stores = new WeakMap<FakeCA, KubeObjects>()

const CONFIG = {
  signerName: SIGNER,
  clusterTrustBundle: 'example.com:workloads:roots',
  usages: ['digital signature', 'server auth', 'client auth'],
}

suite({
  test,
  capabilities: kubernetesCsr.capabilities,
  create,
  without: { endless: 'the transport has its own test of endless answers' },
  check: () => kubernetesCsr.check?.(CONFIG, new Set()),
  slow: process.env['LIVERY_SLOW'] === '1',
})

async function create({ ca, context, after }: ConformanceSetup) {
  const objects = stores.get(ca) ?? new KubeObjects()
  stores.set(ca, objects)
  const tls = await ca.serverCertificate()
  const server = await KubeApiServer.start({ tls, objects })
  after(() => server[Symbol.asyncDispose]())
  const signer = new Signer(ca, objects)
  after(() => signer.stop())
  server.fault = ({ resource, verb }) =>
    resource === 'clustertrustbundles' && verb === 'get'
      ? { kind: 'body', text: JSON.stringify({ spec: { trustBundle: ca.trustBundle().join('') } }) }
      : undefined
  server.admit = object => signer.admit(object)
  const { path } = await kubeconfigFile({ after }, server, ca.trustBundle().join(''))
  return await createKubernetesCsr(context, { ...CONFIG, kubeconfig: path })
}

/** Approver and signer in one: asks the CA for each request, and writes down what it says. */
class Signer {
  readonly #ca: FakeCA
  readonly #objects: KubeObjects
  #stopped = false

  constructor(ca: FakeCA, objects: KubeObjects) {
    this.#ca = ca
    this.#objects = objects
  }

  stop(): void {
    this.#stopped = true
  }

  /** The API server's answer in place of the object; a CA that takes its time is not waited for. */
  async admit(object: StoredObject): Promise<KubeFault | undefined> {
    const { request = '', expirationSeconds = 0, username = '' } = object.spec
    const csr = Buffer.from(request, 'base64').toString()
    const answering = this.#ca.answer({ csr, ttlSeconds: expirationSeconds, token: username })
    const { fault } = this.#ca
    if (typeof fault !== 'function' && ['hang', 'delay', 'pending'].includes(fault.kind)) {
      void answering.then(answer => this.#carryOut(object.metadata.name, answer))
      return undefined
    }
    const answer = await answering
    const inPlace = faultOf(answer)
    if (!inPlace) setImmediate(() => void this.#carryOut(object.metadata.name, answer))
    return inPlace
  }

  async #carryOut(name: string, answer: FakeCAAnswer): Promise<void> {
    let latest = answer
    while (latest.kind === 'pending' && !this.#stopped) {
      await new Promise(setImmediate)
      latest = await this.#ca.collect(latest.id)
    }
    if (this.#stopped) return
    const approved = { type: 'Approved', status: 'True', reason: 'Kit', message: 'approved' }
    if (latest.kind === 'refused') {
      const type = latest.code === 'denied' ? 'Denied' : 'Failed'
      const message = latest.code === 'ttl-too-long' ? `lifetime: ${latest.message}` : latest.message
      this.#objects.update(RESOURCE, name, {
        status: { conditions: [{ type, status: 'True', reason: 'Kit', message }] },
      })
    }
    if (latest.kind !== 'issued') return
    this.#objects.update(RESOURCE, name, { status: { conditions: [approved] } })
    const pem = latest.chain.join('')
    const certificate = Buffer.from(pem || 'no certificate').toString('base64')
    this.#objects.update(RESOURCE, name, { status: { certificate } })
  }
}

/** The fault for a refusal by the API server itself, or for a broken answer. */
function faultOf(answer: FakeCAAnswer): KubeFault | undefined {
  switch (answer.kind) {
    case 'reset':
      return { kind: 'reset' }
    case 'garbage':
      return { kind: 'body', text: answer.text, type: 'text/html' }
    case 'issued':
      return answer.truncated ? { kind: 'body', text: '{"kind":"CertificateSigningRequest","meta' } : undefined
    case 'refused': {
      const { code, message, retryAfterMs } = answer
      if (code === 'denied' || code === 'ttl-too-long') return undefined
      const headers = retryAfterMs === undefined ? undefined : { 'retry-after': String(retryAfterMs / 1000) }
      return { kind: 'status', code: STATUS[code], message, ...(headers && { headers }) }
    }
    default:
      return undefined
  }
}
