/** JSON over HTTPS to a CA: kept connections, bounds on time and size, no redirects, and errors without secrets. */
import type { IncomingHttpHeaders } from 'node:http'
import { type CAContext, type CAError, type CertificateRequest, type Clock, withDeadline } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { certificateRemedy } from '../answers/certificate-failure.ts'
import { jsonObject } from '../answers/json-object.ts'
import { reasonOf } from '../answers/reason-of.ts'
import { scrub } from '../answers/scrub.ts'
import { MAX_PIECES, readBounded } from './bounded-body.ts'
import { CurrentConnection, systemRoots } from './current-connection.ts'
import { isLoopback, userinfoProblem } from './host-port.ts'
import { HttpPool, type HttpRequest, plainAgent, tlsAgent } from './http-pool.ts'
import { Outage } from './outage.ts'
import { untilReachable } from './until-reachable.ts'

export interface HttpsJsonOptions {
  /** Starts with `https://`, or on loopback `http://`; paths are relative to it. */
  readonly address: string
  readonly tls: CAContext['tls']
  readonly clock: Clock
  /** How long one call may take, milliseconds. */
  readonly timeoutMs: number
  /** The longest answer. Default: 1,048,576, a chain of ten large certificates several times over. */
  readonly maxBytes?: number
  /** Accepts any server certificate: only for an answer that proves itself by its hash. Default: `false`. */
  readonly unverified?: boolean
}

export interface JsonRequest extends HttpRequest {
  /** Follows "Cannot" in errors: `get a certificate for … from …`. */
  readonly action: string
  /** Relative to the address, without a slash at its start. */
  readonly path: string
  readonly signal: AbortSignal
}

export interface JsonAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** `undefined` if the text is not a JSON object, or one of more than 10,000 values. */
  readonly json: Readonly<Record<string, unknown>> | undefined
}

export class HttpsJson implements AsyncDisposable {
  readonly #options: Required<HttpsJsonOptions>
  readonly #pool: CurrentConnection<HttpPool>
  readonly #outage: Outage
  /** Whether the newest connection has its own roots; otherwise it uses those of Node.js. */
  #hasRoots = false

  constructor(options: HttpsJsonOptions) {
    const { address, tls, maxBytes = 1_048_576, unverified = false } = options
    this.#options = { ...options, address: withSlash(address), maxBytes, unverified }
    this.#outage = new Outage(options.clock)
    const isTls = new URL(address).protocol === 'https:'
    this.#pool = new CurrentConnection((isTls ? tls : undefined) ?? systemRoots, material => {
      if (!isTls) return new HttpPool(plainAgent())
      this.#hasRoots = material.roots !== undefined
      return new HttpPool(tlsAgent(material, { rejectUnauthorized: !unverified }), material.connected)
    })
  }

  /**
   * Resolves with any answer, whatever its status. Rejects with a `CAError` `timeout`, `unavailable`, or `bad-response`
   * for an answer that is too long or in more than 4,096 pieces, or with the signal's reason. Connections are made again
   * after one that broke or gave no answer.
   */
  async request({ action, signal, ...call }: JsonRequest): Promise<JsonAnswer> {
    const { address, clock, timeoutMs, maxBytes } = this.#options
    const error = () => timeoutError(action, timeoutMs)
    const { response, bytes } = await withDeadline({ clock, ms: timeoutMs, error, signal }, ending =>
      this.#pool.use(async pool => {
        try {
          const response = await pool.send(new URL(call.path, address), call, ending)
          this.#outage.ended()
          return { response, bytes: await readBounded(response, maxBytes) }
        } catch (error) {
          if (!signal.aborted) this.#pool.drop(pool)
          ending.throwIfAborted()
          throw this.#connectionError(error, action)
        }
      }),
    )
    if (bytes === undefined) throw tooLong(action, maxBytes)
    const text = bytes.toString()
    return { status: response.statusCode ?? 0, headers: response.headers, text, json: jsonObject(text) }
  }

  /** Waits for a connection for as long as the request allows: by default not at all. */
  async reachable(
    { connectWithinMs: ms }: Pick<CertificateRequest, 'connectWithinMs'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { address, clock } = this.#options
    if (ms !== undefined) await untilReachable(new URL(address), { clock, ms, signal, outage: this.#outage })
  }

  /** Waits for the open calls, which the caller has aborted. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#pool[Symbol.asyncDispose]()
  }

  #connectionError(error: unknown, action: string): CAError {
    const reason = scrub(reasonOf(error), [])
    const remedy =
      certificateRemedy(reason, this.#hasRoots ? 'rootCert' : 'the roots of this machine', 'the host in address') ??
      'Check the address and the network; it is asked again'
    return caError('unavailable', { action, reason, remedy })
  }
}

function timeoutError(action: string, timeoutMs: number): CAError {
  const remedy = 'Check the address and that the CA runs; it is asked again'
  return caError('timeout', { action, reason: `it gave no answer within ${timeoutMs} ms`, remedy })
}

function tooLong(action: string, maxBytes: number): CAError {
  const reason = `its answer has more than ${maxBytes} bytes or ${MAX_PIECES} pieces`
  return caError('bad-response', { action, reason, remedy: 'Check the address' })
}

/** A slash at the end makes a relative path resolve below the address. */
export function withSlash(address: string): string {
  return address.replace(/\/*$/, '/')
}

/** How long `Retry-After` (RFC 9110) asks to wait, in milliseconds; `undefined` without one. */
export function retryAfterOf({ headers }: Pick<JsonAnswer, 'headers'>, clock: Clock): number | undefined {
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
  if (!/^\w+:\/\//.test(address) || !URL.canParse(address)) return 'is not a URL. Write it like https://ca.example:8443'
  const { protocol, hostname, search, hash } = new URL(address)
  if (search !== '' || hash !== '') return 'has more than host, port and path. Leave the rest out'
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname.replace(/[[\]]/g, '')))) return undefined
  return 'would send tokens unencrypted. Use https'
}
