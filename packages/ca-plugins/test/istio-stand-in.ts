/** The kit's fake CA behind Istio's protocol: real TLS, real gRPC. */
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js'
import type { FakeCA, FakeCAAnswer } from '../src/conformance/index.ts'
import type { IstioCertificateRequest } from '../src/gen/istio/v1/auth/ca.ts'
import { GrpcListener } from '../src/testing/grpc-listener.ts'
import { istioByteService } from '../src/testing/istio-byte-service.ts'
import { refusalMetadata } from '../src/testing/refusal-metadata.ts'
import { encodeResponse } from '../src/transport/istio-certificate-service.ts'
import { REFUSAL_STATUS } from './refusal-status.ts'

type Call = ServerUnaryCall<IstioCertificateRequest, Buffer>

interface IstioStandIn extends AsyncDisposable {
  readonly address: string
}

export async function startIstioStandIn(ca: FakeCA): Promise<IstioStandIn> {
  const { cert, key } = await ca.serverCertificate()
  const pair = { cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }
  const grpc = new Server()
  const listener = await GrpcListener.listen(grpc, ServerCredentials.createSsl(null, [pair]), '127.0.0.1', 0)
  grpc.addService(istioByteService, {
    createCertificate: (call: Call, callback: sendUnaryData<Buffer>) =>
      void answer(ca, call, callback, () => listener.reset()),
  })
  return { address: `localhost:${listener.port}`, [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose]() }
}

async function answer(ca: FakeCA, call: Call, callback: sendUnaryData<Buffer>, reset: () => void): Promise<void> {
  const { csr, validityDuration } = call.request
  const [, token] = /^Bearer (.*)$/.exec(String(call.metadata.get('authorization')[0] ?? '')) ?? []
  const result = await ca.answer({ csr, ttlSeconds: Number(validityDuration), ...(token !== undefined && { token }) })
  switch (result.kind) {
    case 'issued':
      callback(null, encodeIssued(result))
      return
    case 'refused':
      callback(toServiceError(result))
      return
    case 'garbage':
      callback(null, Buffer.from(result.text))
      return
    default:
      reset()
  }
}

/** As istiod: the root last. */
function encodeIssued({ chain, root, truncated }: Extract<FakeCAAnswer, { kind: 'issued' }>): Buffer {
  const bytes = encodeResponse({ certChain: chain.length > 0 ? [...chain, root] : [] })
  return truncated ? bytes.subarray(0, bytes.length / 2) : bytes
}

function toServiceError({ code, message, retryAfterMs }: Extract<FakeCAAnswer, { kind: 'refused' }>) {
  const details = code === 'ttl-too-long' ? 'the requested TTL is too long' : message
  return { code: REFUSAL_STATUS[code], details, metadata: refusalMetadata(retryAfterMs) }
}
