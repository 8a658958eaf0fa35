/**
 * The `citadel` plugin: a {@link CAClient} for Istio's CA, spoken to as Istio's own agent does.
 * https://github.com/istio/api/blob/master/security/v1alpha1/ca.proto
 */
import { Metadata } from '@grpc/grpc-js'
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  type Clock,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core'
import type { MetadataValue } from '../gen/istio/v1/auth/ca.ts'
import { CERT_SIGNER, encodeRequest, IMPERSONATED_IDENTITY } from '../istio-certificate-service.ts'
import type { PluginContext } from '../plugin-context.ts'
import { readToken, type TokenReading } from './bearer-token.ts'
import { AnswerReader, UnusableAnswer } from './certificate-chain.ts'
import { MaterialReader } from './channel-material.ts'
import { CitadelChannel } from './citadel-channel.ts'
import { type CitadelConfig, type CitadelTarget, checkConfig, warningsOf } from './citadel-config.ts'
import { errorOfStatus, type FailedCall } from './citadel-error.ts'

/** Opens no connection yet. Throws a `TypeError` for a value that cannot work. */
export function createCitadel(config: CitadelConfig, context: PluginContext): CAClient {
  const target = checkConfig(config)
  const client = new CitadelClient(config, target, context)
  for (const warning of warningsOf(target)) context.warn(warning)
  return client
}

class CitadelClient implements CAClient {
  readonly #config: CitadelConfig
  readonly #target: CitadelTarget
  readonly #clock: Clock
  readonly #material: MaterialReader
  readonly #answers = new AnswerReader()
  readonly #closing = new AbortController()
  #channel: CitadelChannel | undefined

  constructor(config: CitadelConfig, target: CitadelTarget, { clock, warn }: PluginContext) {
    this.#config = config
    this.#target = target
    this.#clock = clock
    this.#material = new MaterialReader({
      rootCert: target.plaintext ? undefined : config.rootCert,
      clientCertificate: target.plaintext ? undefined : config.clientCertificate,
      warn,
    })
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const signal = AbortSignal.any([request.signal, this.#closing.signal])
    signal.throwIfAborted()
    const { pem } = await untilAborted(request.csr(), signal)
    const { tokenFile = this.#config.tokenFile } = request
    const reading = tokenFile === undefined ? undefined : await untilAborted(readToken(tokenFile), signal)
    // Nothing is awaited between getting the channel and calling on it, since another call may replace it.
    const channel = await untilAborted(this.#currentChannel(), signal)
    const { token, credentialsRemedy } = this.#credentials(reading, tokenFile, channel)
    const result = await channel.createCertificate(this.#encode(request, pem), this.#headers(token), signal)
    const call: FailedCall = {
      what: `a certificate for ${request.identity} from the CA at ${this.#target.address}`,
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
          `Cannot get ${call.what}: it gave no answer within ${this.#timeoutMs} ms. Check the address and that the CA runs; it is asked again.`,
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

  get #timeoutMs(): number {
    return this.#config.timeoutMs ?? 10_000
  }

  /** The open channel, or a new one if its files have changed since or it keeps failing. */
  async #currentChannel(): Promise<CitadelChannel> {
    const material = await this.#material.read()
    this.#closing.signal.throwIfAborted()
    if (this.#channel?.material === material && !this.#channel.isWorn) return this.#channel
    const channel = new CitadelChannel({
      target: this.#target,
      serverName: this.#config.serverName,
      material,
      clock: this.#clock,
      timeoutMs: this.#timeoutMs,
    })
    this.#channel?.retire()
    this.#channel = channel
    return channel
  }

  /** Without a token the client certificate has to do; without that, the CA need not be asked. */
  #credentials(
    reading: TokenReading | undefined,
    tokenFile: string | undefined,
    { material }: CitadelChannel,
  ): { readonly token?: string; readonly credentialsRemedy: string } {
    if (reading?.kind === 'token')
      return {
        token: reading.token,
        credentialsRemedy: `Check the expiry, the audience and the cluster of the token in ${tokenFile}.`,
      }
    if (material.client)
      return { credentialsRemedy: `Check the client certificate ${this.#config.clientCertificate?.certFile}.` }
    if (reading === undefined) return { credentialsRemedy: 'Set tokenFile: the call was sent without a token.' }
    throw new CAError(
      'unauthenticated',
      `Cannot use the token in ${tokenFile}: ${reading.reason}. Mount a token there for the CA at ${this.#target.address}, or correct tokenFile.`,
    )
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
    const { certSigner, impersonate = false } = this.#config
    const fields = new Map<string, MetadataValue>()
    if (certSigner !== undefined) fields.set(CERT_SIGNER, { kind: { $case: 'stringValue', value: certSigner } })
    if (impersonate) fields.set(IMPERSONATED_IDENTITY, { kind: { $case: 'stringValue', value: identity } })
    return encodeRequest({
      csr,
      validityDuration: BigInt(Math.max(1, Math.round(ttlSeconds))),
      metadata: fields.size > 0 ? { fields } : undefined,
    })
  }

  #issued(bytes: Buffer, { what }: FailedCall): IssuedCertificate {
    try {
      return this.#answers.read(bytes)
    } catch (error) {
      if (!(error instanceof UnusableAnswer)) throw error
      throw new CAError(
        'bad-response',
        `Cannot get ${what}: its answer ${error.message}. Check that an Istio CA answers there.`,
        { cause: error },
      )
    }
  }
}
