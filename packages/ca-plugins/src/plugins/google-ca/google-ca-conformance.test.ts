/** The conformance kit, on both services. */
import { describe, test } from 'node:test'
import { protos } from '@google-cloud/security-private-ca'
import { status } from '@grpc/grpc-js'
import { configFor, decodeCas, decodeMesh, startStandIn } from '../../../test/google-ca-setup.ts'
import { type GoogleStandIn, type Handler, Refusal, type StandInCall } from '../../../test/google-stand-in.ts'
import { REFUSAL_STATUS } from '../../../test/refusal-status.ts'
import { type ConformanceSetup, type FakeCA, type FakeCAAnswer, suite } from '../../conformance/index.ts'
import { MeshCertificateResponse } from '../../gen/google/security/meshca/v1/meshca.ts'
import { casCapabilities, createGoogleCa, googleCa, meshCaCapabilities } from './plugin.ts'

const { Certificate, FetchCaCertsResponse } = protos.google.cloud.security.privateca.v1

type Issued = Extract<FakeCAAnswer, { kind: 'issued' }>

/** The server's behaviour for an answer that is not a certificate. */
async function inBytes(
  answer: FakeCAAnswer,
  server: () => GoogleStandIn,
  encode: (issued: Issued) => Uint8Array,
): Promise<Uint8Array> {
  switch (answer.kind) {
    case 'issued': {
      const bytes = encode(answer)
      return answer.truncated ? bytes.subarray(0, bytes.length / 2) : bytes
    }
    case 'refused': {
      const words = answer.code === 'ttl-too-long' ? `lifetime: ${answer.message}` : answer.message
      throw new Refusal(REFUSAL_STATUS[answer.code], words, answer.retryAfterMs)
    }
    case 'garbage':
      return Buffer.from(answer.text)
    case 'reset':
      server().reset()
      return new Promise<never>(() => {})
    case 'pending':
    case 'endless':
      throw new Refusal(status.INTERNAL, 'there is no such answer')
  }
}

function tokenOf({ headers }: StandInCall): string {
  return headers['authorization']?.replace(/^Bearer /, '') ?? ''
}

function casOf(ca: FakeCA, server: () => GoogleStandIn): Handler {
  return async call => {
    const roots = () => ca.trustBundle().map(root => ({ certificates: [root] }))
    if (call.method === 'FetchCaCerts') return FetchCaCertsResponse.encode({ caCerts: roots() }).finish()
    const { certificate } = decodeCas(call)
    const ttlSeconds = Number(certificate?.lifetime?.seconds)
    const answer = await ca.answer({ csr: certificate?.pemCsr ?? '', ttlSeconds, token: tokenOf(call) })
    return inBytes(answer, server, ({ chain: [pemCertificate, ...issuers], root }) =>
      Certificate.encode(
        pemCertificate === undefined ? {} : { pemCertificate, pemCertificateChain: [...issuers, root] },
      ).finish(),
    )
  }
}

function meshCaOf(ca: FakeCA, server: () => GoogleStandIn): Handler {
  return async call => {
    const { csr, validity } = decodeMesh(call)
    const answer = await ca.answer({ csr, ttlSeconds: Number(validity?.seconds), token: tokenOf(call) })
    return inBytes(answer, server, ({ chain, root }) =>
      MeshCertificateResponse.encode({ certChain: chain.length > 0 ? [...chain, root] : [] }).finish(),
    )
  }
}

async function create(service: 'cas' | 'mesh-ca', { ca, context, after }: ConformanceSetup) {
  const handler: Handler = call => handle(call)
  const server = await startStandIn(service, handler)
  const handle = service === 'cas' ? casOf(ca, () => server) : meshCaOf(ca, () => server)
  after(() => server[Symbol.asyncDispose]())
  return createGoogleCa(context, configFor(service, server))
}

const slow = process.env['LIVERY_SLOW'] === '1'
const without = { endless: 'a message of gRPC begins with its length' }
function check(service: 'cas' | 'mesh-ca'): void {
  googleCa.check?.(configFor(service, { address: '127.0.0.1:443' }), new Set(['credentials']))
}

describe('cas', { concurrency: 1 }, () => {
  suite({
    test,
    check: () => check('cas'),
    create: setup => create('cas', setup),
    capabilities: casCapabilities,
    without,
    slow,
  })
})
describe('mesh-ca', { concurrency: 1 }, () => {
  suite({
    test,
    check: () => check('mesh-ca'),
    create: setup => create('mesh-ca', setup),
    capabilities: meshCaCapabilities,
    without,
    slow,
  })
})
