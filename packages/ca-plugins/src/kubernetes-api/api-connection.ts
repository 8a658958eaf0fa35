/** Calls to the API server: each with the current credentials, over connections that are kept. */
import type { IncomingMessage } from 'node:http'
import {
  type CAError,
  type CertificateRequest,
  type Clock,
  type CredentialSource,
  rememberToken,
  untilAborted,
} from '@livery/core/plugin'
import { hasMoreValues, jsonObject, MAX_VALUES } from '../answers/json-object.ts'
import { readTokenFile } from '../credentials/token-file.ts'
import { MAX_PIECES, readBounded } from '../transport/bounded-body.ts'
import { CurrentConnection } from '../transport/current-connection.ts'
import type { HttpRequest } from '../transport/http-pool.ts'
import { Outage } from '../transport/outage.ts'
import { untilReachable } from '../transport/until-reachable.ts'
import { type ApiCall, answerTooLarge, caErrorOfAnswer, NoAnswer, noAnswer, unreadable } from './api-errors.ts'
import type { ApiSession, Login, LoginSource } from './api-login.ts'

/** The caller on whose behalf a call is made. */
export type Caller = Pick<CertificateRequest, 'signal' | 'tokenFile'>

export interface ApiRequest extends HttpRequest {
  readonly path: string
  /** Statuses other than success that count as an answer. Default: none. */
  readonly expected?: readonly number[]
  /** The most values that its answer may have. Default: {@link MAX_VALUES}. */
  readonly maxValues?: number
}

type StreamRequest = Pick<ApiRequest, 'path' | 'headers'>

interface ApiObject {
  readonly status: number
  readonly json: Readonly<Record<string, unknown>>
}

/** Larger than any object that the API server can store. */
const MAX_ANSWER_BYTES = 4_194_304

export class ApiConnection implements AsyncDisposable {
  readonly #clock: Clock
  readonly #credentials: CredentialSource | undefined
  readonly #sessions: CurrentConnection<ApiSession, Login>
  readonly #outage: Outage

  constructor(login: LoginSource, clock: Clock, credentials?: CredentialSource) {
    this.#clock = clock
    this.#credentials = credentials
    this.#outage = new Outage(clock)
    this.#sessions = new CurrentConnection(
      () => login.read(),
      current => current.open(),
    )
  }

  /**
   * Resolves with the object in the answer. Rejects with a `CAError`, or the signal's reason; the error is an
   * `AnswerTooLarge` if reading fewer objects would help.
   */
  async request(
    call: ApiCall,
    caller: Caller,
    { expected = [], maxValues = MAX_VALUES, ...request }: ApiRequest,
  ): Promise<ApiObject> {
    using lease = await this.#sessions.lease(caller.signal)
    const session = lease.connection
    const { server } = session.login
    const secrets: string[] = []
    const response = await this.#send(session, { call, caller, request, secrets })
    const { statusCode: status = 0, headers } = response
    const text = await this.#textOf(response, session, { call, caller, secrets })
    if ((status < 200 || status >= 300) && !expected.includes(status))
      throw this.#refused(session, caErrorOfAnswer({ status, headers, text }, call, server, secrets))
    if (hasMoreValues(text, maxValues)) throw answerTooLarge(`${maxValues} values`, call, server)
    const json = jsonObject(text, maxValues)
    if (json) return { status, json }
    throw unreadable('it is not a JSON object', call, server)
  }

  /**
   * Yields the body of the answer to a GET as it arrives. Ends when the server or the network ends it, and at once for 410:
   * the server no longer has the version to begin with. Rejects as {@link request} does, also for every other status than 200.
   */
  async *stream(call: ApiCall, caller: Caller, request: StreamRequest): AsyncGenerator<Uint8Array, void> {
    using lease = await this.#sessions.lease(caller.signal)
    const response = await this.#begin(lease.connection, call, caller, request)
    try {
      if (response) yield* response
    } catch {
      // The caller reads the object again, and then learns what is wrong with the connection.
      caller.signal.throwIfAborted()
    }
  }

  /** Waits until the server accepts connections, for as long as the request allows: by default not at all. */
  async reachable(
    { connectWithinMs: ms }: Pick<CertificateRequest, 'connectWithinMs'>,
    signal: AbortSignal,
  ): Promise<void> {
    if (ms === undefined) return
    using lease = await this.#sessions.lease(signal)
    const clock = this.#clock
    await untilReachable(new URL(lease.connection.login.server), { clock, ms, signal, outage: this.#outage })
  }

  /** Waits for the open calls, which the caller has aborted. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sessions[Symbol.asyncDispose]()
  }

  /** `undefined` if the connection broke before the answer, and for 410. */
  async #begin(
    session: ApiSession,
    call: ApiCall,
    caller: Caller,
    request: StreamRequest,
  ): Promise<IncomingMessage | undefined> {
    const secrets: string[] = []
    try {
      const response = await this.#send(session, { call, caller, request, secrets })
      const { statusCode: status = 0, headers } = response
      if (status === 200) return response
      const text = await this.#textOf(response, session, { call, caller, secrets })
      if (status === 410) return undefined
      throw this.#refused(session, caErrorOfAnswer({ status, headers, text }, call, session.login.server, secrets))
    } catch (error) {
      if (error instanceof NoAnswer) return undefined
      throw error
    }
  }

  /** Drops the session after a 401: the next one asks programs and providers for credentials again, and shows certificates again. */
  #refused(session: ApiSession, error: CAError): CAError {
    if (error.code === 'unauthenticated') this.#sessions.drop(session)
    return error
  }

  async #send(
    session: ApiSession,
    { call, caller, request, secrets }: OpenCall & { readonly request: ApiRequest },
  ): Promise<IncomingMessage> {
    const { signal } = caller
    const { server } = session.login
    const token = await untilAborted(this.#token(session, caller), signal)
    const { pool, headers } = await untilAborted(session.authorize(token), signal)
    const { authorization } = headers
    if (authorization !== undefined) {
      const sent = authorization.replace(/^\S+ /, '')
      secrets.push(sent)
      rememberToken(sent)
    }
    try {
      const url = new URL(server + request.path)
      const response = await untilAborted(
        pool.send(url, { ...request, headers: { ...request.headers, ...headers } }, signal),
        signal,
      )
      this.#outage.ended()
      return response
    } catch (error) {
      signal.throwIfAborted()
      throw noAnswer(error, call, server, secrets)
    }
  }

  async #textOf(response: IncomingMessage, { login }: ApiSession, open: OpenCall): Promise<string> {
    const { signal } = open.caller
    let bytes: Buffer | undefined
    try {
      bytes = await untilAborted(readBounded(response, MAX_ANSWER_BYTES), signal)
    } catch (error) {
      signal.throwIfAborted()
      throw noAnswer(error, open.call, login.server, open.secrets)
    }
    if (bytes) return bytes.toString()
    throw answerTooLarge(`${MAX_ANSWER_BYTES} bytes or ${MAX_PIECES} pieces`, open.call, login.server)
  }

  /** Livery's own credentials take precedence over the login's. */
  async #token({ login }: ApiSession, caller: Caller): Promise<string | undefined> {
    const credentials = this.#credentials
    const clock = this.#clock
    if (credentials && credentials.isConfigured?.(caller) !== false) return (await credentials.get(caller)).token
    if (login.tokenFile === undefined) return undefined
    return (await readTokenFile(login.tokenFile, clock, caller.signal)).token
  }
}

interface OpenCall {
  readonly call: ApiCall
  readonly caller: Caller
  /** Collects the tokens of the request, which must not appear in a message. */
  readonly secrets: string[]
}
