/**
 * The `sts` source: a security token service exchanges one token for another (RFC 8693), as Google's does for
 * Kubernetes service account tokens (workload identity federation).
 */
import {
  CAError,
  type Clock,
  type ConfigOf,
  type Credential,
  type CredentialContext,
  type CredentialRequest,
  type CredentialSource,
  defineCredentialPlugin,
  OptionError,
  type PluginOptions,
  sleep,
} from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { scrub } from '../answers/scrub.ts'
import { isLoopback, userinfoProblem } from '../transport/host-port.ts'
import { type JsonAnswer, retryAfterOf } from '../transport/https-json.ts'
import { gceMetadata, gceMetadataOptions } from './gce-metadata.ts'
import { exchange } from './http-exchange.ts'
import { accessTokenOf } from './token-answer.ts'
import { TokenCache, tokenKey } from './token-cache.ts'
import { tokenFile } from './token-file.ts'
import { workloadToken, workloadTokenOptions } from './workload-token.ts'

const exchangeOptions = {
  endpoint: {
    type: 'string',
    default: 'https://sts.googleapis.com/v1/token',
    problem: endpointProblem,
    description: 'the URL that exchanges tokens: https, except on this machine',
  },
  audience: {
    type: 'string',
    required: true,
    description: 'the audience of the token; with Google, the full name of the workload identity provider or pool',
  },
  scope: {
    type: 'string',
    default: 'https://www.googleapis.com/auth/cloud-platform',
    description: 'the scope of the token; several are separated by spaces',
  },
} as const satisfies PluginOptions

export type ExchangeConfig = ConfigOf<typeof exchangeOptions>

const { token: _, ...metadataOptions } = gceMetadataOptions

export const sts = defineCredentialPlugin({
  apiVersion: 1,
  name: 'sts',
  options: {
    ...exchangeOptions,
    gceMetadata: {
      type: 'object',
      options: metadataOptions,
      description:
        'exchange the identity token of the metadata server; without it, the token in `tokenFile` under `ca`',
    },
    workloadToken: {
      type: 'object',
      options: workloadTokenOptions,
      description: "exchange the token of the workload's own account instead of one token for all",
    },
  },
  check({ gceMetadata: metadata, workloadToken: workload }) {
    if (metadata && workload)
      throw new OptionError(
        'workloadToken',
        'Cannot use workloadToken: gceMetadata is set as well. Leave one of them out.',
      )
  },
  async create(context, { gceMetadata: metadata, workloadToken: workload, ...config }) {
    return exchangeTokens(context, config, await subjectOf(context, metadata, workload))
  },
})

async function subjectOf(
  context: CredentialContext,
  metadata: ConfigOf<typeof metadataOptions> | undefined,
  workload: ConfigOf<typeof workloadTokenOptions> | undefined,
): Promise<CredentialSource> {
  if (workload) return workloadToken.create(context, workload)
  return metadata ? gceMetadata.create(context, { ...metadata, token: 'identity' }) : tokenFile.create(context, {})
}

/** A source that exchanges the tokens of `subject`, which can be any source. */
export function exchangeTokens(
  context: Pick<CredentialContext, 'clock' | 'log'>,
  config: ExchangeConfig,
  subject: CredentialSource,
): CredentialSource {
  return new TokenExchange(context, config, subject)
}

const REFRESH = { beforeMs: 5 * 60_000, intervalMs: 60_000 }
const TRIES = 5
const PAUSE_MS = 50
/** 5xx statuses that a retry does not change. */
const FINAL_STATUSES: ReadonlySet<number> = new Set([501, 505, 511])

class TokenExchange implements CredentialSource {
  readonly #config: ExchangeConfig
  readonly #clock: Clock
  readonly #subject: CredentialSource
  readonly #cache: TokenCache

  constructor(
    { clock, log }: Pick<CredentialContext, 'clock' | 'log'>,
    config: ExchangeConfig,
    subject: CredentialSource,
  ) {
    this.#config = config
    this.#clock = clock
    this.#subject = subject
    this.#cache = new TokenCache(clock, log, REFRESH)
  }

  get description(): string {
    return `the token that ${this.#config.endpoint} gives for ${this.#subject.description}`
  }

  get isPerIdentity(): boolean {
    return this.#subject.isPerIdentity ?? false
  }

  isConfigured(request: Pick<CredentialRequest, 'tokenFile'>): boolean {
    return this.#subject.isConfigured?.(request) ?? true
  }

  /** Uses the configured audience: the request names the audience of the CA, not of the service. */
  async get({ identity, tokenFile: own, signal }: CredentialRequest): Promise<Credential> {
    const subject = { ...(identity !== undefined && { identity }), ...(own !== undefined && { tokenFile: own }) }
    return this.#cache.get(tokenKey(this.#subject, subject), signal, aborted => this.#exchange(subject, aborted))
  }

  async #exchange(subject: Omit<CredentialRequest, 'signal'>, signal: AbortSignal): Promise<Credential> {
    const { tokenFile: own } = subject
    const { token } = await this.#subject.get({ ...subject, signal })
    const action = `exchange ${own === undefined ? this.#subject.description : `the token in ${own}`} at ${this.#config.endpoint}`
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(token, action, signal)
      } catch (error) {
        if (attempt === TRIES || !mayPass(error)) throw error
        await sleep(this.#clock, PAUSE_MS, signal)
      }
    }
  }

  async #attempt(token: string, action: string, signal: AbortSignal): Promise<Credential> {
    const { endpoint, audience, scope } = this.#config
    const askedAt = this.#clock.now()
    const answer = await exchange({
      action,
      url: new URL(endpoint),
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        audience,
        scope,
        requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        subject_token: token,
        subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      }).toString(),
      clock: this.#clock,
      signal,
    })
    if (answer.status === 200) return accessTokenOf(answer, action, askedAt)
    throw caErrorOfAnswer(answer, action, token, this.#clock)
  }
}

function caErrorOfAnswer(answer: JsonAnswer, action: string, token: string, clock: Clock): CAError {
  const { status } = answer
  const reason = `HTTP ${status} ${scrub(errorText(answer), [token])}`.trim()
  if (status === 429) {
    const retryAfterMs = retryAfterOf(answer, clock)
    return caError('rate-limited', { action, reason, remedy: 'Livery retries later', retryAfterMs })
  }
  if (status >= 500) {
    const remedy = 'Check endpoint, and that the service runs'
    return caError('unavailable', { action, reason, remedy, retryable: !FINAL_STATUSES.has(status) })
  }
  const remedy = 'Check audience, and that the service trusts the issuer of the token'
  return caError('unauthenticated', { action, reason, remedy })
}

/** Reads the OAuth form (RFC 6749, section 5.2) or the form of Google's APIs; returns any other text unchanged. */
function errorText({ json, text }: JsonAnswer): string {
  const { error, error_description: description } = json ?? {}
  if (typeof error === 'string') return typeof description === 'string' ? `${error}: ${description}` : error
  if (typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string')
    return error.message
  return text
}

function mayPass(error: unknown): boolean {
  return error instanceof CAError && error.retryable && (error.code === 'unavailable' || error.code === 'timeout')
}

function endpointProblem(endpoint: string): string | undefined {
  const userinfo = userinfoProblem(endpoint)
  if (userinfo !== undefined) return userinfo
  if (!URL.canParse(endpoint)) return 'is not a URL. Write it like https://sts.googleapis.com/v1/token'
  const { protocol, hostname } = new URL(endpoint)
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname.replace(/[[\]]/g, '')))) return undefined
  return 'would send the token unencrypted. Use https'
}
