/**
 * A {@link CAClient} for Istio's CA, spoken to as Istio's own agent does.
 * https://github.com/istio/api/blob/master/security/v1alpha1/ca.proto
 */
import { isIP } from 'node:net'
import {
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type CredentialRequest,
  type CredentialSource,
  type IssuedCertificate,
  type TlsMaterial,
  untilAborted,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import type { MetadataValue } from '../../gen/istio/v1/auth/ca.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { Closable } from '../../transport/closable.ts'
import { CurrentConnection, systemRoots } from '../../transport/current-connection.ts'
import { GrpcConnection, headerList } from '../../transport/grpc-connection.ts'
import { isStatus } from '../../transport/grpc-status.ts'
import type { ChannelTarget } from '../../transport/http2-dial.ts'
import {
  CERT_SIGNER,
  CREATE_CERTIFICATE,
  encodeRequest,
  IMPERSONATED_IDENTITY,
  ResponseReader,
} from '../../transport/istio-certificate-service.ts'
import type { CitadelConfig, CitadelTarget } from './config.ts'
import { caErrorOfCall } from './errors.ts'

/** istiod's cluster if its CLUSTER_ID is not set. Without a name istiod reviews the token, and then refuses impersonation. */
const ISTIOD_CLUSTER = 'Kubernetes'

export class CitadelClient implements CAClient {
  readonly #config: CitadelConfig
  readonly #target: CitadelTarget
  readonly #context: CAContext
  /** What every call sends, as `UnaryCall.headers`. */
  readonly #headers: readonly string[]
  readonly #responses = new ResponseReader()
  readonly #connection: CurrentConnection<GrpcConnection>
  readonly #closing: Closable

  constructor(config: CitadelConfig, target: CitadelTarget, context: CAContext) {
    this.#config = config
    this.#headers = configuredHeaders(config)
    this.#target = target
    this.#context = context
    this.#closing = new Closable(`the CA at ${target.address}`)
    this.#connection = new CurrentConnection(
      (target.plaintext ? undefined : context.tls) ?? systemRoots,
      material =>
        new GrpcConnection({
          target: { ...channelTarget(target, config.serverName), material },
          clock: context.clock,
        }),
    )
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    using call = this.#closing.begin(request.signal)
    const { ending } = call
    const action = `get a certificate for ${request.identity} from the CA at ${this.#target.address}`
    const bytes = await untilAborted(this.#ask(request, action, ending), ending.signal)
    return this.#responses.read(bytes, { action, remedy: 'Check that an Istio CA answers there' })
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    await this.#connection[Symbol.asyncDispose]()
  }

  /** The caller stops waiting as soon as the call has ended: nothing begins after that. */
  async #ask(request: CertificateRequest, action: string, ending: AbortController): Promise<Buffer> {
    const { signal } = ending
    const { pem } = await request.csr()
    signal.throwIfAborted()
    const { credentials } = this.#context
    const { tokenFile } = request
    const own = tokenFile === undefined ? {} : { tokenFile }
    const isSet = credentials && credentials.isConfigured?.(own) !== false
    const reading = isSet ? await readToken(credentials, { ...own, identity: request.identity, signal }) : undefined
    using lease = await this.#connection.lease()
    signal.throwIfAborted()
    const { connection } = lease
    const { token, what = '', remedy } = this.#proof(reading, connection.material)
    const { headers = {} } = this.#config
    try {
      return await connection.call({
        path: CREATE_CERTIFICATE,
        request: this.#encode(request, pem),
        headers: token === undefined ? this.#headers : this.#headers.concat('authorization', `Bearer ${token}`),
        signal,
        connectWithinMs: request.connectWithinMs,
        deadline: { ms: CALL_TIMEOUT_MS, expire: () => ending.abort(timeoutError(action, CALL_TIMEOUT_MS)) },
      })
    } catch (error) {
      if (!isStatus(error)) throw error
      throw caErrorOfCall(error, {
        action,
        secrets: [token ?? '', ...Object.values(headers)],
        credentialsRemedy: remedy,
        token: token ?? '',
        what,
      })
    }
  }

  /** The client certificate suffices without a usable token; without both, the CA is not asked. */
  #proof(reading: Token | CAError | undefined, material: TlsMaterial): Partial<Token> & { readonly remedy: string } {
    if (reading && !(reading instanceof CAError)) {
      const remedy = `Check the expiry, the audience and the cluster of ${reading.what}, and that the CA reaches what it checks tokens with (istiod: the API server)`
      return { ...reading, remedy }
    }
    if (!material.clientCertificate) {
      if (reading) throw reading
      return { remedy: 'Set tokenFile: the call was sent without a token' }
    }
    if (reading) this.#context.log.debug(`${reading.message} The client certificate is shown without it.`)
    return { remedy: 'Check the client certificate: the call was sent without a token' }
  }

  #encode({ identity, ttlSeconds }: CertificateRequest, csr: string): Buffer {
    const { certSigner, impersonate } = this.#config
    const fields = new Map<string, MetadataValue>()
    if (certSigner !== undefined) fields.set(CERT_SIGNER, { kind: { $case: 'stringValue', value: certSigner } })
    if (impersonate) fields.set(IMPERSONATED_IDENTITY, { kind: { $case: 'stringValue', value: identity } })
    return encodeRequest({
      csr,
      validityDuration: BigInt(Math.max(1, Math.round(ttlSeconds))),
      metadata: fields.size > 0 ? { fields } : undefined,
    })
  }
}

interface Token {
  readonly token: string
  /** Names it: `the token in …`. */
  readonly what: string
}

/** The token, or why it cannot be used. */
async function readToken(credentials: CredentialSource, request: CredentialRequest): Promise<Token | CAError> {
  const { tokenFile, signal } = request
  try {
    const { token } = await untilAborted(credentials.get(request), signal)
    return { token, what: tokenFile === undefined ? credentials.description : `the token in ${tokenFile}` }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof CAError) return error
    throw error
  }
}

function configuredHeaders({ impersonate, clusterId, headers = {} }: CitadelConfig): readonly string[] {
  const cluster = clusterId ?? (impersonate ? ISTIOD_CLUSTER : undefined)
  return headerList({ ...headers, ...(cluster !== undefined && { clusterid: cluster }) })
}

function timeoutError(action: string, timeoutMs: number): CAError {
  const remedy = 'Check the address and that the CA runs; it is asked again'
  return caError('timeout', { action, reason: `it gave no answer within ${timeoutMs} ms`, remedy })
}

function channelTarget(
  { host, port, plaintext }: CitadelTarget,
  serverName: string | undefined,
): Omit<ChannelTarget, 'material'> {
  // TLS allows no addresses as names (RFC 6066, section 3), and Node warns of them: istiod's usual name is sent instead.
  const sentName = serverName ?? (isIP(host) ? 'istiod.istio-system.svc' : host)
  return { host, port, plaintext, serverName: serverName ?? host, sentName, authority: serverName }
}
