/** Stand-ins for both of Google's CAs that really sign, and `google-ca` clients for them. */
import 'reflect-metadata'
import type { TestContext } from 'node:test'
import { protos } from '@google-cloud/security-private-ca'
import { status } from '@grpc/grpc-js'
import {
  type CAClient,
  type CertificateRequest,
  type Clock,
  type CredentialRequest,
  type CredentialSource,
  isSpiffeId,
  pemToDer,
  type SpiffeId,
} from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from '@peculiar/x509'
import { MeshCertificateRequest, MeshCertificateResponse } from '../src/gen/google/security/meshca/v1/meshca.ts'
import { CertificateAuthority } from '../src/plugins/embedded/certificate-authority.ts'
import type { GoogleCaConfig } from '../src/plugins/google-ca/config.ts'
import { createGoogleCa } from '../src/plugins/google-ca/plugin.ts'
import { pluginContext, type RecordingContext } from '../src/testing/plugin-context.ts'
import { GoogleStandIn, type Handler, Refusal, type StandInCall } from './google-stand-in.ts'

export const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
export const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'
export const POOL = 'projects/p/locations/europe-west1/caPools/workloads'
export const CLUSTER = 'https://container.googleapis.com/v1/projects/p/locations/europe-west1-b/clusters/c'

const { CreateCertificateRequest, Certificate, FetchCaCertsResponse } = protos.google.cloud.security.privateca.v1
const REFLECTED_SPIFFE = 2
/** The longest lifetime that the issuance policy allows. */
const MAX_SECONDS = 86_400

/** One token per identity, for a server that takes the identity from the caller. */
export class IdentityTokens implements CredentialSource {
  readonly description = 'the tokens of the test'
  readonly requests: CredentialRequest[] = []
  token = `secret-token.${WEB}`

  async get(request: CredentialRequest) {
    this.requests.push(request)
    return { token: request.tokenFile ?? this.token }
  }
}

interface GoogleSetup {
  readonly server: GoogleStandIn
  readonly client: CAClient
  readonly clock: FakeClock
  readonly context: RecordingContext
  readonly credentials: IdentityTokens
  /** The CAs of the pool; the first one signs. */
  readonly authorities: readonly CertificateAuthority[]
  readonly config: GoogleCaConfig
  /** The server's action in place of signing. */
  behaviour: Handler | undefined
}

interface GoogleSetupOptions {
  readonly service: 'cas' | 'mesh-ca'
  readonly config?: Partial<GoogleCaConfig>
  /** How many CAs are in the pool; default 1. */
  readonly authorities?: number
  /** Default: credentials of the context. */
  readonly withoutCredentials?: boolean
}

export async function setUpGoogle(t: TestContext, options: GoogleSetupOptions): Promise<GoogleSetup> {
  const { service } = options
  const clock = new FakeClock()
  const authorities = await Promise.all(Array.from({ length: options.authorities ?? 1 }, () => openAuthority(clock)))
  const sign = service === 'cas' ? casHandler(authorities) : meshCaHandler(authorities)
  const server = await startStandIn(service, call => (setup.behaviour ?? sign)(call))
  t.after(() => server[Symbol.asyncDispose]())
  const credentials = new IdentityTokens()
  const context = pluginContext({ clock, ...(!options.withoutCredentials && { credentials }) })
  const config = configFor(service, server, options.config)
  const client = await createGoogleCa(context, config)
  t.after(() => client[Symbol.asyncDispose]())
  const setup: GoogleSetup = { server, client, clock, context, credentials, authorities, config, behaviour: undefined }
  return setup
}

export function startStandIn(
  service: 'cas' | 'mesh-ca',
  handler: Handler,
  tls?: { readonly cert: string; readonly key: string },
): Promise<GoogleStandIn> {
  const served =
    service === 'cas'
      ? {
          service: 'google.cloud.security.privateca.v1.CertificateAuthorityService',
          methods: ['CreateCertificate', 'FetchCaCerts'],
        }
      : { service: 'google.security.meshca.v1.MeshCertificateService', methods: ['CreateCertificate'] }
  return GoogleStandIn.start({ ...served, ...(tls && { tls }) }, handler)
}

export function configFor(
  service: 'cas' | 'mesh-ca',
  { address }: Pick<GoogleStandIn, 'address'>,
  config: Partial<GoogleCaConfig> = {},
): GoogleCaConfig {
  const own = service === 'cas' ? { pool: POOL } : { clusterUrl: CLUSTER }
  return { service, subjectMode: 'reflected-spiffe', endpoint: `http://${address}`, ...own, ...config }
}

/** The call's message. */
export function decodeCas({ request }: StandInCall) {
  return CreateCertificateRequest.decode(request)
}

export function decodeMesh({ request }: StandInCall): MeshCertificateRequest {
  return MeshCertificateRequest.decode(request)
}

/** With `signal`, and so the same CSR as `request`. */
export function withSignal(request: CertificateRequest, signal: AbortSignal): CertificateRequest {
  return { ...request, signal }
}

/**
 * Answers as Certificate Authority Service does, each request ID once. `lifetimeOf`: what an identity gets, in seconds;
 * default: its wish.
 */
export function casHandler(
  authorities: readonly CertificateAuthority[],
  lifetimeOf: (identity: SpiffeId, wish: number) => number = (_, wish) => wish,
): Handler {
  const answered = new Map<string, Promise<Uint8Array>>()
  return call => {
    if (call.method === 'FetchCaCerts') return fetchCaCerts(authorities)
    const request = decodeCas(call)
    const answer = answered.get(request.requestId) ?? createCertificate(authorities, call, lifetimeOf)
    answered.set(request.requestId, answer)
    return answer
  }
}

async function createCertificate(
  [authority]: readonly CertificateAuthority[],
  call: StandInCall,
  lifetimeOf: (identity: SpiffeId, wish: number) => number,
): Promise<Uint8Array> {
  const { certificate } = decodeCas(call)
  const wish = Number(certificate?.lifetime?.seconds)
  if (wish > MAX_SECONDS)
    throw new Refusal(status.INVALID_ARGUMENT, 'The requested lifetime exceeds the maximum of the issuance policy.')
  const csr = pemToDer(certificate?.pemCsr ?? '')
  const identity = certificate?.subjectMode === REFLECTED_SPIFFE ? callerOf(call) : identityIn(csr)
  if (!authority) throw new Refusal(status.FAILED_PRECONDITION, 'The CA pool has no enabled CA.')
  const { chain, root } = await authority.sign({ identity, csr, ttlSeconds: lifetimeOf(identity, wish) })
  const [pemCertificate = '', ...issuers] = chain
  return Certificate.encode({ pemCertificate, pemCertificateChain: [...issuers, root] }).finish()
}

async function fetchCaCerts(authorities: readonly CertificateAuthority[]): Promise<Uint8Array> {
  const caCerts = authorities.map(authority => ({ certificates: [...authority.trustBundle()] }))
  return FetchCaCertsResponse.encode({ caCerts }).finish()
}

export function meshCaHandler([authority]: readonly CertificateAuthority[]): Handler {
  return async call => {
    const { csr, validity } = decodeMesh(call)
    if (!authority) throw new Refusal(status.INTERNAL)
    const ttlSeconds = Number(validity?.seconds)
    const { chain, root } = await authority.sign({ identity: callerOf(call), csr: pemToDer(csr), ttlSeconds })
    return MeshCertificateResponse.encode({ certChain: [...chain, root] }).finish()
  }
}

export function openAuthority(clock: Clock): Promise<CertificateAuthority> {
  return CertificateAuthority.open({ clock, trustDomain: 'cluster.local', intermediate: true })
}

function callerOf({ headers }: StandInCall): SpiffeId {
  const [, identity = ''] = /^Bearer [a-z-]+\.(spiffe:.*)$/.exec(headers['authorization'] ?? '') ?? []
  if (isSpiffeId(identity)) return identity
  throw new Refusal(status.UNAUTHENTICATED, 'Request had invalid authentication credentials.')
}

function identityIn(csr: Buffer): SpiffeId {
  const { extensions } = new Pkcs10CertificateRequest(new Uint8Array(csr))
  const names = extensions.find(extension => extension instanceof SubjectAlternativeNameExtension)
  const identity = names?.names.items[0]?.value ?? ''
  if (isSpiffeId(identity)) return identity
  throw new Refusal(status.INVALID_ARGUMENT, 'The CSR names no SPIFFE ID.')
}
