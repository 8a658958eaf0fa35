/**
 * The `citadel` plugin: a {@link CAClient} for Istio's CA, spoken to as Istio's own agent does.
 * https://github.com/istio/api/blob/master/security/v1alpha1/ca.proto
 */
import { Metadata } from '@grpc/grpc-js'
import {
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  defineCAPlugin,
  type IssuedCertificate,
  KEY_TYPES,
  type TlsMaterial,
  untilAborted,
} from '@livery/core'
import { type Answer, badAnswer, ChainReader } from '../../answers/certificate-chain.ts'
import { IstioCertificateResponse, type MetadataValue } from '../../gen/istio/v1/auth/ca.ts'
import { CERT_SIGNER, encodeRequest, IMPERSONATED_IDENTITY } from '../../transport/istio-certificate-service.ts'
import { CitadelChannel } from './citadel-channel.ts'
import {
  type CitadelConfig,
  type CitadelTarget,
  checkConfig,
  citadelOptions,
  targetOf,
  warningsOf,
} from './citadel-config.ts'
import { errorOfStatus, type FailedCall } from './citadel-error.ts'

/** Istio's CA, or another that speaks its protocol: istiod, istio-csr. */
export const citadel = defineCAPlugin({
  apiVersion: 1,
  name: 'citadel',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'caller', keyTypes: KEY_TYPES },
  needs: ['tls', 'credentials'],
  options: citadelOptions,
  check: checkConfig,
  create(context, config) {
    const target = targetOf(config)
    for (const warning of warningsOf(target)) context.log.warn(warning)
    return new CitadelClient(config, target, context)
  },
})

const NO_TLS: TlsMaterial = {}

class CitadelClient implements CAClient {
  readonly #config: CitadelConfig
  readonly #target: CitadelTarget
  readonly #context: CAContext
  readonly #answers = new ChainReader({ rootsLast: true })
  readonly #closing = new AbortController()
  #channel: CitadelChannel | undefined

  constructor(config: CitadelConfig, target: CitadelTarget, context: CAContext) {
    this.#config = config
    this.#target = target
    this.#context = context
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const signal = AbortSignal.any([request.signal, this.#closing.signal])
    signal.throwIfAborted()
    const { pem } = await untilAborted(request.csr(), signal)
    const reading = await this.#readToken(request.tokenFile, signal)
    // Nothing is awaited between getting the channel and calling on it, since another call may replace it.
    const channel = await untilAborted(this.#currentChannel(), signal)
    const { token, remedy: credentialsRemedy } = this.#proof(reading, channel)
    const result = await channel.createCertificate(this.#encode(request, pem), this.#headers(token), signal)
    const call: FailedCall = {
      action: `get a certificate for ${request.identity} from the CA at ${this.#target.address}`,
      secrets: [token ?? '', ...Object.values(this.#config.headers ?? {})],
      credentialsRemedy,
    }
    switch (result.kind) {
      case 'answer':
        return this.#issued(result.bytes, call)
      case 'status':
        throw errorOfStatus(result.error, call)
      case 'timeout':
        throw new CAError(
          'timeout',
          `Cannot ${call.action}: it gave no answer within ${this.#config.timeout} ms. Check the address and that the CA runs; it is asked again.`,
        )
    }
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort(
      new CAError('unavailable', `Cannot ask the CA at ${this.#target.address}: its client is closed.`, {
        retryable: false,
      }),
    )
    this.#channel?.retire()
    this.#channel = undefined
  }

  /** The open channel, or a new one if its files have changed since or it keeps failing. */
  async #currentChannel(): Promise<CitadelChannel> {
    const { clock, tls } = this.#context
    const material = this.#target.plaintext || !tls ? NO_TLS : await tls()
    this.#closing.signal.throwIfAborted()
    if (this.#channel?.material === material && !this.#channel.isWorn) return this.#channel
    const { serverName, timeout: timeoutMs } = this.#config
    const channel = new CitadelChannel({ target: this.#target, serverName, material, clock, timeoutMs })
    this.#channel?.retire()
    this.#channel = channel
    return channel
  }

  async #readToken(tokenFile: string | undefined, signal: AbortSignal): Promise<TokenReading> {
    const { credentials } = this.#context
    const own = tokenFile === undefined ? {} : { tokenFile }
    if (!credentials || credentials.isConfigured?.(own) === false) return { kind: 'unset' }
    try {
      const { token } = await untilAborted(credentials.get({ ...own, signal }), signal)
      const what = tokenFile === undefined ? credentials.description : `the token in ${tokenFile}`
      return { kind: 'token', token, what }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CAError) return { kind: 'unusable', error }
      throw error
    }
  }

  /** Without a usable token the client certificate has to do; without that, the CA need not be asked. */
  #proof(reading: TokenReading, { material }: CitadelChannel): { readonly token?: string; readonly remedy: string } {
    if (reading.kind === 'token')
      return {
        token: reading.token,
        remedy: `Check the expiry, the audience and the cluster of ${reading.what}.`,
      }
    if (!material.clientCertificate) {
      if (reading.kind === 'unusable') throw reading.error
      return { remedy: 'Set tokenFile: the call was sent without a token.' }
    }
    if (reading.kind === 'unusable')
      this.#context.log.debug(`${reading.error.message} The client certificate is shown without it.`)
    return { remedy: 'Check the client certificate: the call was sent without a token.' }
  }

  #headers(token: string | undefined): Metadata {
    const { clusterId, headers = {} } = this.#config
    const metadata = new Metadata()
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
    if (clusterId !== undefined) metadata.set('ClusterID', clusterId)
    if (token !== undefined) metadata.set('authorization', `Bearer ${token}`)
    return metadata
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

  #issued(bytes: Buffer, { action }: FailedCall): IssuedCertificate {
    const answer = { action, remedy: 'Check that an Istio CA answers there' }
    return this.#answers.read(certChainOf(bytes, answer), answer)
  }
}

type TokenReading =
  | { readonly kind: 'token'; readonly token: string; readonly what: string }
  | { readonly kind: 'unusable'; readonly error: CAError }
  | { readonly kind: 'unset' }

function certChainOf(bytes: Buffer, answer: Answer): readonly string[] {
  try {
    return IstioCertificateResponse.decode(bytes).certChain
  } catch (error) {
    throw badAnswer(answer, 'is not an IstioCertificateResponse', error)
  }
}
