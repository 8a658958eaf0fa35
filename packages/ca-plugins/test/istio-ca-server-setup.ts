/** The CA server with its own CA, and a way to call it, for its tests. */
import type { TestContext } from 'node:test'
import { ChannelCredentials, Client, Metadata, type ServiceError } from '@grpc/grpc-js'
import { SystemClock } from '@livery/core/plugin'
import type { IstioCertificateRequest } from '../src/gen/istio/v1/auth/ca.ts'
import { IstioCaServer, type IstioCaServerOptions } from '../src/istio-ca-server/istio-ca-server.ts'
import type { CertificateAuthorityOptions } from '../src/plugins/embedded/authority-state.ts'
import { CertificateAuthority } from '../src/plugins/embedded/certificate-authority.ts'
import { workloadRequest } from '../src/testing/workload-request.ts'
import { IMPERSONATED_IDENTITY, istioCertificateService } from '../src/transport/istio-certificate-service.ts'

export interface CaServerSetup {
  readonly authority: CertificateAuthority
  readonly server: IstioCaServer
  readonly warnings: readonly string[]
}

export async function setUpCaServer(
  t: TestContext,
  options: Partial<IstioCaServerOptions> = {},
  authorityOptions: Partial<CertificateAuthorityOptions> = {},
): Promise<CaServerSetup> {
  const clock = options.clock ?? new SystemClock()
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local', ...authorityOptions })
  const warnings: string[] = []
  const server = await IstioCaServer.start({
    authority,
    authenticators: [],
    clock,
    listen: '127.0.0.1:0',
    warn: message => warnings.push(message),
    ...options,
  })
  t.after(() => server[Symbol.asyncDispose]())
  return { authority, server, warnings }
}

export interface Ask {
  readonly token?: string
  readonly impersonate?: string
  readonly client?: { readonly certificate: string; readonly key: string }
  /** Instead of a good CSR. */
  readonly csr?: string
  /** Default 3600; 0 requests no lifetime. */
  readonly ttlSeconds?: number
}

/** The chain that the server answers with to a caller of this kind; rejects with the `ServiceError`. */
export async function ask({ server, authority }: CaServerSetup, options: Ask = {}): Promise<readonly string[]> {
  const root = Buffer.from(authority.trustBundle().join(''))
  const { client } = options
  const credentials = client
    ? ChannelCredentials.createSsl(root, Buffer.from(client.key), Buffer.from(client.certificate))
    : ChannelCredentials.createSsl(root)
  return askAt(server.address.replace('127.0.0.1', 'localhost'), credentials, options)
}

export async function askAt(
  address: string,
  credentials: ChannelCredentials,
  { token, impersonate, csr, ttlSeconds = 3600 }: Ask,
): Promise<readonly string[]> {
  const client = new Client(address, credentials, { 'grpc.use_local_subchannel_pool': 1 })
  const metadata = new Metadata()
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`)
  const fields = new Map([
    [IMPERSONATED_IDENTITY, { kind: { $case: 'stringValue' as const, value: impersonate ?? '' } }],
  ])
  const request: IstioCertificateRequest = {
    csr: csr ?? (await workloadRequest('spiffe://cluster.local/ns/evil/sa/not-me')).csrPem,
    validityDuration: BigInt(ttlSeconds),
    metadata: impersonate === undefined ? undefined : { fields },
  }
  const { path, requestSerialize, responseDeserialize } = istioCertificateService.createCertificate
  try {
    return await new Promise<readonly string[]>((resolve, reject) =>
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        (error: ServiceError | null, answer) => (error ? reject(error) : resolve(answer?.certChain ?? [])),
      ),
    )
  } finally {
    client.close()
  }
}
