/** A CA plugin for Livery: a CA that takes `POST /sign` with a CSR as JSON over HTTPS, and answers with a chain. */
import {
  addressProblem,
  badAnswer,
  ChainReader,
  Closable,
  caError,
  HttpsJson,
  type JsonAnswer,
  type JsonRequest,
  retryAfterOf,
  rootsInBundle,
} from '@livery/ca-plugins/support'
import {
  type CAClient,
  type CAContext,
  type CAErrorCode,
  type CertificateRequest,
  type ConfigOf,
  defineCAPlugin,
  type IssuedCertificate,
  type PluginOptions,
  untilAborted,
} from '@livery/core/plugin'

const options = {
  url: {
    type: 'string',
    required: true,
    description: 'the CA, such as https://ca.example:8443',
    problem: addressProblem,
  },
  timeout: { type: 'duration', default: '10s', min: '100ms', max: '5m', description: 'how long one call may take' },
} as const satisfies PluginOptions

export const plugin = defineCAPlugin({
  apiVersion: 1,
  name: 'example',
  capabilities: { roots: 'poll', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048'] },
  needs: ['tls', 'credentials'],
  options,
  create: (context, config) => new Client(context, config),
})

/** Room for a chain and every root, several times over. */
const MAX_ANSWER_BYTES = 262_144
const REMEDY = 'Check url'
const CODES: Readonly<Record<number, CAErrorCode>> = {
  400: 'invalid-csr',
  401: 'unauthenticated',
  403: 'denied',
  422: 'ttl-too-long',
  429: 'rate-limited',
}

class Client implements CAClient {
  readonly #context: CAContext
  readonly #url: string
  readonly #closable: Closable
  readonly #http: HttpsJson
  readonly #chains = new ChainReader()

  constructor(context: CAContext, { url, timeout }: ConfigOf<typeof options>) {
    const { clock, tls } = context
    this.#context = context
    this.#url = url
    this.#closable = new Closable(url)
    this.#http = new HttpsJson({ address: url, tls, clock, timeoutMs: timeout, maxBytes: MAX_ANSWER_BYTES })
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const { identity, ttlSeconds, tokenFile } = request
    const signal = this.#closable.until(request.signal)
    const action = `get a certificate for ${identity} from ${this.#url}`
    const { pem } = await untilAborted(request.csr(), signal)
    await this.#http.reachable(request, signal)
    const token = await this.#token(tokenFile, signal)
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await this.#call({
      action,
      path: 'sign',
      method: 'POST',
      headers,
      body: { csr: pem, ttlSeconds },
      signal,
    })
    const { chain } = this.#chains.read(texts(answer['chain']), { action, remedy: REMEDY })
    return { chain, roots: rootsInBundle(texts(answer['roots']).join('\n'), { action, remedy: REMEDY }) }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const action = `get the roots of ${this.#url}`
    const answer = await this.#call({ action, path: 'roots', signal: this.#closable.until(signal) })
    return rootsInBundle(texts(answer['roots']).join('\n'), { action, remedy: REMEDY })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closable.close()
    await this.#http[Symbol.asyncDispose]()
  }

  /** Reads the token at each call: tokens change on disk. */
  async #token(tokenFile: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    const credential = await this.#context.credentials?.get({ signal, ...(tokenFile !== undefined && { tokenFile }) })
    return credential?.token
  }

  async #call(request: JsonRequest): Promise<NonNullable<JsonAnswer['json']>> {
    const answer = await this.#http.request(request)
    const { status, json } = answer
    const { action } = request
    if (status === 200 && json) return json
    if (status === 200) throw badAnswer({ action, remedy: REMEDY }, 'is not a JSON object')
    // The CA's text is left out: it may quote the token.
    throw caError(CODES[status] ?? 'unavailable', {
      action,
      reason: `it refused with HTTP ${status}`,
      remedy: 'See the log of the CA',
      retryAfterMs: retryAfterOf(answer, this.#context.clock),
    })
  }
}

function texts(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter(element => typeof element === 'string') : []
}
