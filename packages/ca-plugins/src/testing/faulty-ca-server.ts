/** A CA server for tests: real TLS, real gRPC, real certificates, and whatever fault a test asks for. */
import 'reflect-metadata'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import { isSpiffeId, pemToDer, type SpiffeId, SystemClock } from '@livery/core/plugin'
import * as x509 from '@peculiar/x509'
import type { IstioCertificateRequest } from '../gen/istio/v1/auth/ca.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { encodeResponse, IMPERSONATED_IDENTITY, metadataText } from '../transport/istio-certificate-service.ts'
import { GrpcListener } from './grpc-listener.ts'
import { GrpcStandIn, headersOf } from './grpc-stand-in.ts'
import { istioByteService } from './istio-byte-service.ts'
import { refusalMetadata } from './refusal-metadata.ts'
import { workloadRequest } from './workload-request.ts'

/** The behaviour of the server in a call. */
export type CaBehaviour =
  /** Signs; `chain` turns what it would answer (leaf, intermediates, root) into something else, `until` delays it. */
  | {
      readonly kind: 'sign'
      readonly chain?: (certificates: readonly string[]) => readonly string[]
      readonly until?: Promise<void>
    }
  | { readonly kind: 'wrong-san'; readonly identity: SpiffeId }
  | { readonly kind: 'wrong-key' }
  | { readonly kind: 'expired' }
  | { readonly kind: 'answer-bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'refuse'; readonly code: status; readonly details?: string; readonly retryAfterMs?: number }
  /** Never answers. */
  | { readonly kind: 'hang' }
  /** Resets the TCP connection. */
  | { readonly kind: 'reset' }

/** A call as it arrived. */
export interface RecordedCall {
  readonly request: IstioCertificateRequest
  /** The headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** DER, if one was shown. */
  readonly clientCertificate: Uint8Array | undefined
}

export interface FaultyCaServerOptions {
  /** Whether the server demands a certificate from its CA; default `false`. */
  readonly requireClientCertificate?: boolean
  /** Default `localhost` and 127.0.0.1. */
  readonly dnsNames?: readonly string[]
  /** Whether it signs through an intermediate; default `false`. */
  readonly intermediate?: boolean
  /** Whether it serves without TLS; default `false`. */
  readonly plaintext?: boolean
  /** Default `127.0.0.1`. */
  readonly host?: string
  /** Default 0, a free one. */
  readonly port?: number
  /** Sends clients a GOAWAY after this time, as a load balancer does, milliseconds. Default: never. */
  readonly maxConnectionAgeMs?: number
  /** Default: a separate CA, of trust domain `cluster.local`. */
  readonly authority?: CertificateAuthority
}

type Call = ServerUnaryCall<IstioCertificateRequest, Buffer>

const DAY_MS = 86_400_000

/** Signs for every caller: the impersonated identity, else the one of a `Bearer spiffe://…` token, else the CSR's. */
export class FaultyCaServer extends GrpcStandIn<RecordedCall> {
  readonly authority: CertificateAuthority
  readonly address: string
  /** The behaviour in each later call. */
  behaviour: CaBehaviour = { kind: 'sign' }
  readonly #clock: ShiftableClock

  private constructor(parts: {
    readonly authority: CertificateAuthority
    readonly clock: ShiftableClock
    readonly listener: GrpcListener
    readonly address: string
  }) {
    super(parts.listener, Number.POSITIVE_INFINITY)
    this.authority = parts.authority
    this.address = parts.address
    this.#clock = parts.clock
  }

  static async start(options: FaultyCaServerOptions = {}): Promise<FaultyCaServer> {
    const clock = new ShiftableClock()
    const { host = '127.0.0.1', port = 0, intermediate = false } = options
    const authority =
      options.authority ?? (await CertificateAuthority.open({ clock, trustDomain: 'cluster.local', intermediate }))
    const { maxConnectionAgeMs: age } = options
    const grpc = new Server(age === undefined ? {} : { 'grpc.max_connection_age_ms': age })
    const listener = await GrpcListener.listen(grpc, await serverCredentials(authority, options), host, port)
    const address = `${host}:${listener.port}`
    const server = new FaultyCaServer({ authority, clock, listener, address })
    grpc.addService(istioByteService, {
      createCertificate: (call: Call, callback: sendUnaryData<Buffer>) => server.#handle(call, callback),
    })
    return server
  }

  #handle(call: Call, callback: sendUnaryData<Buffer>): void {
    const recorded = recordedCall(call)
    this.record(recorded)
    const { behaviour } = this
    switch (behaviour.kind) {
      case 'hang':
        return
      case 'reset':
        this.reset()
        return
      case 'refuse':
        callback(refusal(behaviour))
        return
      case 'answer-bytes':
        callback(null, Buffer.from(behaviour.bytes))
        return
      default:
        this.#sign(recorded, behaviour).then(
          certChain => callback(null, encodeResponse({ certChain })),
          (error: Error) => callback({ code: status.INTERNAL, details: error.message }),
        )
    }
  }

  async #sign(
    call: RecordedCall,
    behaviour: Extract<CaBehaviour, { kind: 'sign' | 'wrong-san' | 'wrong-key' | 'expired' }>,
  ): Promise<string[]> {
    const asked = identityOf(call)
    const identity = behaviour.kind === 'wrong-san' ? behaviour.identity : asked
    const csr = behaviour.kind === 'wrong-key' ? (await workloadRequest(asked)).csrDer : pemToDer(call.request.csr)
    if (behaviour.kind === 'expired') this.#clock.shiftMs = -DAY_MS
    const ttlSeconds = behaviour.kind === 'expired' ? 60 : Number(call.request.validityDuration)
    // The dates are fixed before the first pause.
    const signing = this.authority.sign({ identity, csr, ttlSeconds })
    this.#clock.shiftMs = 0
    const { chain, root } = await signing
    const certificates = [...chain, root]
    if (behaviour.kind !== 'sign') return certificates
    await behaviour.until
    return [...(behaviour.chain?.(certificates) ?? certificates)]
  }
}

class ShiftableClock extends SystemClock {
  shiftMs = 0

  override now(): number {
    return super.now() + this.shiftMs
  }
}

async function serverCredentials(
  authority: CertificateAuthority,
  { plaintext, dnsNames = ['localhost'], requireClientCertificate = false }: FaultyCaServerOptions,
): Promise<ServerCredentials> {
  if (plaintext) return ServerCredentials.createInsecure()
  const { chain, privateKey } = await authority.issueServerCertificate({ dnsNames, ipAddresses: ['127.0.0.1'] }, 3600)
  return ServerCredentials.createSsl(
    Buffer.from(authority.trustBundle().join('')),
    [{ cert_chain: Buffer.from(chain), private_key: Buffer.from(privateKey) }],
    requireClientCertificate,
  )
}

function recordedCall(call: Call): RecordedCall {
  return {
    request: call.request,
    headers: headersOf(call),
    clientCertificate: call.getAuthContext().sslPeerCertificate?.raw,
  }
}

function identityOf({ request, headers }: RecordedCall): SpiffeId {
  const impersonated = metadataText(request, IMPERSONATED_IDENTITY)
  const [, token] = /^Bearer (spiffe:.*)$/.exec(headers['authorization'] ?? '') ?? []
  const { extensions } = new x509.Pkcs10CertificateRequest(new Uint8Array(pemToDer(request.csr)))
  const names = extensions.find(extension => extension instanceof x509.SubjectAlternativeNameExtension)
  const identity = impersonated ?? token ?? names?.names.items[0]?.value ?? ''
  if (isSpiffeId(identity)) return identity
  throw new Error(`Cannot sign for ${JSON.stringify(identity)}: it is not a SPIFFE ID`)
}

function refusal({ code, details = 'refused', retryAfterMs }: Extract<CaBehaviour, { kind: 'refuse' }>) {
  return { code, details, metadata: refusalMetadata(retryAfterMs) }
}
