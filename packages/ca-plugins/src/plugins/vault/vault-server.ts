/** The HTTP API of one Vault or OpenBao server: https://developer.hashicorp.com/vault/api-docs */
import type { CAContext, CAError, CertificateRequest, Clock } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { HttpsJson, type JsonAnswer } from '../../transport/https-json.ts'
import type { VaultConfig } from './config.ts'
import { errorOfAnswer } from './errors.ts'

interface VaultCall {
  /** Follows "Cannot" in the message: `get a certificate for … from …`. */
  readonly action: string
  readonly method?: 'GET' | 'POST'
  /** The path below `/v1/`. */
  readonly path: string
  /** Absent: the endpoint needs none. */
  readonly token?: string
  readonly body?: object
  /** Default: false. */
  readonly isLogin?: boolean
  /** Values besides the token that must not appear in a message. */
  readonly secrets?: readonly string[]
  /** The remedy for a rejected token. */
  readonly tokenRemedy: string
  readonly signal: AbortSignal
}

type Fields = Readonly<Record<string, unknown>>

export class VaultServer implements AsyncDisposable {
  readonly #http: HttpsJson
  readonly #clock: Clock
  readonly #namespace: string | undefined

  constructor({ clock, tls }: Pick<CAContext, 'clock' | 'tls'>, { address, namespace }: VaultConfig) {
    this.#http = new HttpsJson({ address, tls, clock, timeoutMs: CALL_TIMEOUT_MS })
    this.#clock = clock
    this.#namespace = namespace
  }

  /** The answer's JSON. Rejects with a `CAError`, or the signal's reason. */
  async call(call: VaultCall): Promise<Fields> {
    const answer = await this.#request(call)
    if (answer.status !== 200) throw this.#error(answer, call)
    if (answer.json) return answer.json
    throw caError('bad-response', {
      action: call.action,
      reason: 'its answer is not JSON',
      remedy: 'Check the address',
    })
  }

  /** Does the same; `undefined` if the path has nothing. */
  async find(call: VaultCall): Promise<Fields | undefined> {
    const answer = await this.#request(call)
    if (answer.status === 404 && answer.json) return undefined
    if (answer.status === 200 && answer.json) return answer.json
    throw this.#error(answer, call)
  }

  /** See {@link HttpsJson.reachable}. */
  reachable(request: Pick<CertificateRequest, 'connectWithinMs'>, signal: AbortSignal): Promise<void> {
    return this.#http.reachable(request, signal)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#http[Symbol.asyncDispose]()
  }

  #request({ action, method, path, token, body, signal }: VaultCall): Promise<JsonAnswer> {
    return this.#http.request({
      action,
      ...(method && { method }),
      path: `v1/${path}`,
      headers: {
        // An agent in between may require it.
        'x-vault-request': 'true',
        ...(token !== undefined && { 'x-vault-token': token }),
        ...(this.#namespace !== undefined && { 'x-vault-namespace': this.#namespace }),
      },
      ...(body && { body }),
      signal,
    })
  }

  #error(answer: JsonAnswer, { action, isLogin = false, token = '', secrets = [], tokenRemedy }: VaultCall): CAError {
    return errorOfAnswer(answer, { action, isLogin, secrets: [token, ...secrets], tokenRemedy, clock: this.#clock })
  }
}

/** The object at `name` in `fields`; empty if there is none. */
export function fieldsOf(fields: Fields, name: string): Fields {
  const value = fields[name]
  return isFields(value) ? value : {}
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}
