/** JSON over HTTPS to a CA: connections that are kept, bounded in time and size, without redirects, and errors without secrets. */
import { Agent as HttpAgent, type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { type CAContext, CAError, type Clock, type TlsMaterial, untilAborted } from '@livery/core'
import { jsonObject } from '../answers/json-object.ts'
import { scrub } from '../answers/scrub.ts'
import { MAX_PIECES, readBoundedStream } from './bounded-body.ts'
import { type Connection, CurrentConnection } from './current-connection.ts'
import { isLoopback, userinfoProblem } from './host-port.ts'

export interface HttpsJsonOptions {
  /** Begins with `https://`, or on loopback `http://`; paths are taken from it. */
  readonly address: string
  readonly tls: CAContext['tls']
  readonly clock: Clock
  /** How long one call may take. */
  readonly timeoutMs: number
  /** Only for an answer that proves itself, by its hash: nobody is asked for a certificate. Default: false. */
  readonly unverified?: boolean
}

export interface JsonRequest {
  /** What is asked of whom, after "Cannot get": `a certificate for … from …`. */
  readonly what: string
  readonly method?: 'GET' | 'POST'
  /** From the address on, without a slash before it. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: object
  readonly signal: AbortSignal
}

export interface JsonAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** `undefined` if the answer is no JSON object, or one of more values than an answer has. */
  readonly json: Readonly<Record<string, unknown>> | undefined
}

/** A chain of ten large certificates, several times over. */
const MAX_ANSWER_BYTES = 1_048_576
/** As many as a node asks for at once; further calls wait for one of them. */
const MAX_CONNECTIONS = 64
/** How long a connection lies idle before TCP looks whether the other end is there: Node would have it ask each second. */
const KEEPALIVE_MS = 20_000

export class HttpsJson implements AsyncDisposable {
  readonly #address: string
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #pool: CurrentConnection<Pool>

  constructor({ address, tls, clock, timeoutMs, unverified = false }: HttpsJsonOptions) {
    this.#address = withSlash(address)
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    const isTls = new URL(address).protocol === 'https:'
    this.#pool = new CurrentConnection(isTls ? tls : undefined, material => new Pool(isTls, material, unverified))
  }

  /**
   * Any answer, whatever its status. Rejects with a `CAError` `timeout`, `unavailable`, or `bad-response` for an answer
   * over 1 MB or cut into more than 4,096 pieces, or with the signal's reason. Connections are made anew after one that broke or gave no answer.
   */
  async request({ what, signal, ...call }: JsonRequest): Promise<JsonAnswer> {
    const deadline = new AbortController()
    using _ = this.#clock.at(this.#clock.now() + this.#timeoutMs, () =>
      deadline.abort(
        new CAError(
          'timeout',
          `Cannot get ${what}: it gave no answer within ${this.#timeoutMs} ms. Check the address and that the CA runs; it is asked again.`,
        ),
      ),
    )
    const ending = AbortSignal.any([signal, deadline.signal])
    const answering = this.#pool.use(async pool => {
      try {
        return await pool.send(new URL(call.path, this.#address), call, ending)
      } catch (error) {
        if (!signal.aborted) this.#pool.drop(pool)
        ending.throwIfAborted()
        throw connectionError(error, what)
      }
    })
    const { response, bytes } = await untilAborted(answering, ending)
    if (bytes === undefined)
      throw new CAError(
        'bad-response',
        `Cannot get ${what}: its answer has more than ${MAX_ANSWER_BYTES} bytes or ${MAX_PIECES} pieces. Check the address.`,
      )
    return { status: response.statusCode ?? 0, headers: response.headers, json: jsonObject(bytes.toString()) }
  }

  /** Waits for the open calls, which the caller has aborted. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#pool[Symbol.asyncDispose]()
  }
}

/** The connections that were made of the same files. */
class Pool implements Connection {
  readonly #agent: HttpAgent
  readonly #request: typeof requestHttp

  constructor(isTls: boolean, { roots, clientCertificate }: TlsMaterial, unverified: boolean) {
    const common = {
      keepAlive: true,
      keepAliveMsecs: KEEPALIVE_MS,
      maxSockets: MAX_CONNECTIONS,
      maxFreeSockets: MAX_CONNECTIONS,
    }
    this.#request = isTls ? requestHttps : requestHttp
    this.#agent = isTls
      ? new HttpsAgent({
          ...common,
          minVersion: 'TLSv1.2',
          rejectUnauthorized: !unverified,
          ...(roots && { ca: roots }),
          ...(clientCertificate && { cert: clientCertificate.certificate, key: clientCertificate.key }),
        })
      : new HttpAgent(common)
  }

  async send(
    url: URL,
    { method = 'GET', headers, body }: Omit<JsonRequest, 'what' | 'signal' | 'path'>,
    signal: AbortSignal,
  ): Promise<{ readonly response: IncomingMessage; readonly bytes: Buffer | undefined }> {
    const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const request = this.#request(url, {
      agent: this.#agent,
      method,
      headers: {
        accept: 'application/json',
        ...(sent && { 'content-type': 'application/json', 'content-length': sent.length }),
        ...headers,
      },
      signal,
    })
    // Stays: what breaks after the answer began is told by the answer.
    request.on('error', reject).on('response', resolve).end(sent)
    const response = await promise
    return { response, bytes: await readBoundedStream(response, MAX_ANSWER_BYTES) }
  }

  close(): void {
    this.#agent.destroy()
  }
}

function connectionError(error: unknown, what: string): CAError {
  const reason = scrub(reasonOf(error), [])
  const remedy = /certificate|altname|self-signed|unable to verify|CERT_/i.test(reason)
    ? 'Check rootCert and the host in address against the certificate of the CA.'
    : 'Check the address and the network; it is asked again.'
  return new CAError('unavailable', `Cannot get ${what}: ${reason}. ${remedy}`)
}

/** The first of several addresses that were tried in vain. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}

/** So that a path taken from it lies below it. */
export function withSlash(address: string): string {
  return address.replace(/\/*$/, '/')
}

/** How long `Retry-After` (RFC 9110) asks to wait, in milliseconds, if it is there. */
export function retryAfterOf({ headers }: JsonAnswer, clock: Clock): number | undefined {
  const value = headers['retry-after']
  if (value === undefined) return undefined
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - clock.now()
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs)
}

/** Why `address` cannot be used, as the `problem` of an option. */
export function addressProblem(address: string): string | undefined {
  const userinfo = userinfoProblem(address)
  if (userinfo !== undefined) return userinfo
  // `localhost:9000` parses too, with the scheme `localhost`.
  if (!/^\w+:\/\//.test(address) || !URL.canParse(address)) return 'is no URL. Write it like https://ca.example:8443'
  const { protocol, hostname, search, hash } = new URL(address)
  if (search !== '' || hash !== '') return 'has more than host, port and path. Leave the rest out'
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname.replace(/[[\]]/g, '')))) return undefined
  return 'would send tokens unencrypted. Use https'
}
