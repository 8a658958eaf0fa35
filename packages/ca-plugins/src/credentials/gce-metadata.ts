/**
 * The `gce-metadata` source: tokens of the service account of a Google Cloud machine or, on GKE, of the pod.
 * https://cloud.google.com/compute/docs/instances/verifying-instance-identity
 */
import {
  type Clock,
  type ConfigOf,
  type Credential,
  type CredentialContext,
  type CredentialRequest,
  type CredentialSource,
  defineCredentialPlugin,
  type PluginOptions,
} from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { badAnswer } from '../answers/certificate-chain.ts'
import { scrub } from '../answers/scrub.ts'
import type { JsonAnswer } from '../transport/https-json.ts'
import { exchange } from './http-exchange.ts'
import { accessTokenOf } from './token-answer.ts'
import { TokenCache } from './token-cache.ts'
import { unexpired } from './token-expiry.ts'
import { readTokenFile } from './token-file.ts'

export const gceMetadataOptions = {
  token: {
    type: 'string',
    choices: ['identity', 'access'],
    default: 'identity',
    description:
      '`identity`: a JWT for one audience, signed by Google; `access`: an OAuth token for the APIs of Google',
  },
  audience: {
    type: 'string',
    description: 'the audience of the identity token, if the plugin that uses it names none',
  },
  address: {
    type: 'string',
    default: 'http://metadata.google.internal',
    problem: address =>
      /^http:\/\/[^/?#@\s]+$/.test(address) ? undefined : 'is not an address. Write http://host:port',
    description: 'the URL of the metadata server',
  },
} as const satisfies PluginOptions

export const gceMetadata = defineCredentialPlugin({
  apiVersion: 1,
  name: 'gce-metadata',
  options: gceMetadataOptions,
  create: (context, config) => new GceMetadata(context, config),
})

/** Istio's agent also checks every five minutes, and renews early. */
const REFRESH = { beforeMs: 25 * 60_000, intervalMs: 5 * 60_000 }

class GceMetadata implements CredentialSource {
  readonly description: string
  readonly #config: ConfigOf<typeof gceMetadataOptions>
  readonly #clock: Clock
  readonly #cache: TokenCache

  constructor({ clock, log }: CredentialContext, config: ConfigOf<typeof gceMetadataOptions>) {
    this.description = `the ${config.token} token from the metadata server ${config.address}`
    this.#config = config
    this.#clock = clock
    this.#cache = new TokenCache(clock, log, REFRESH)
  }

  async get({ audience = this.#config.audience, tokenFile, signal }: CredentialRequest): Promise<Credential> {
    if (tokenFile !== undefined) return readTokenFile(tokenFile, this.#clock, signal)
    if (this.#config.token === 'access') return this.#cache.get('', signal, aborted => this.#accessToken(aborted))
    if (audience === undefined)
      throw caError('unauthenticated', {
        action: `get ${this.description}`,
        reason: 'no audience is named',
        remedy: 'Set audience under credentials',
      })
    return this.#cache.get(audience, signal, aborted => this.#identityToken(audience, aborted))
  }

  async #accessToken(signal: AbortSignal): Promise<Credential> {
    const askedAt = this.#clock.now()
    return accessTokenOf(await this.#ask('token', {}, signal), `get ${this.description}`, askedAt)
  }

  async #identityToken(audience: string, signal: AbortSignal): Promise<Credential> {
    const token = (await this.#ask('identity', { audience, format: 'full' }, signal)).text.trim()
    if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token))
      throw badAnswer({ action: `get ${this.description}`, remedy: 'Check address' }, 'is not a JWT')
    return unexpired(token, this.description, 'Check that the clock of this machine is right', this.#clock)
  }

  async #ask(name: string, query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<JsonAnswer> {
    const { address } = this.#config
    const url = new URL(`/computeMetadata/v1/instance/service-accounts/default/${name}`, address)
    url.search = new URLSearchParams(query).toString()
    const action = `get ${this.description}`
    const headers = { 'metadata-flavor': 'Google' }
    const answer = await exchange({ action, url, headers, clock: this.#clock, signal })
    if (answer.headers['metadata-flavor'] !== 'Google')
      throw caError('bad-response', {
        action,
        reason: "the server there is not Google's metadata server",
        remedy: 'Check address, and that this machine is one of Google Cloud',
      })
    if (answer.status === 200) return answer
    const reason = `HTTP ${answer.status} ${scrub(answer.text, [])}`.trim()
    if (answer.status >= 500 || answer.status === 429)
      throw caError('unavailable', { action, reason, remedy: 'It is asked again' })
    throw caError('unauthenticated', {
      action,
      reason,
      remedy: 'Check that this machine has the service account, and is allowed to use it',
    })
  }
}
