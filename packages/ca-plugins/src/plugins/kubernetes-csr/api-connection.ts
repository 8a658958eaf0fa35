/** Calls to the API server: each with the credentials of its moment, over connections that are kept. */
import type { Configuration, RequestContext, ResponseContext } from '@kubernetes/client-node'
import { CAError, type CertificateRequest, type Clock, type CredentialSource, untilAborted } from '@livery/core'
import { readTokenFile } from '../../credentials/token-file.ts'
import { MAX_PIECES, readBounded } from '../../transport/bounded-body.ts'
import { ApiSession } from './api-session.ts'
import type { KubernetesLibrary } from './client-library.ts'
import { apiError, type Doing, NoAnswer, statusOf } from './errors.ts'
import type { Login, LoginFiles } from './login.ts'

/** For whom a call is made. */
export type Caller = Pick<CertificateRequest, 'signal' | 'tokenFile'>

/** More than the store of the API server takes for one object. */
const MAX_ANSWER_BYTES = 4_194_304

export interface ApiConnectionParts {
  readonly library: KubernetesLibrary
  readonly login: LoginFiles
  readonly clock: Clock
  readonly credentials: CredentialSource | undefined
}

export class ApiConnection implements AsyncDisposable {
  readonly #parts: ApiConnectionParts
  readonly #http: InstanceType<KubernetesLibrary['IsomorphicFetchHttpLibrary']>
  readonly #retired = new Set<ApiSession>()
  #session: ApiSession | undefined

  constructor(parts: ApiConnectionParts) {
    this.#parts = parts
    this.#http = new parts.library.IsomorphicFetchHttpLibrary()
  }

  /** `send` with a configuration of the library's; rejects with a `CAError`, or the signal's reason. */
  async call<T>(doing: Doing, caller: Caller, send: (configuration: Configuration) => Promise<T>): Promise<T> {
    const secrets: string[] = []
    return this.#asCAError(doing, caller, secrets, async session => send(this.#configuration(session, caller, secrets)))
  }

  /**
   * The body of the answer to a GET as it comes. `undefined` if the connection broke before, or for 410, where what it
   * was to begin with is gone. Rejects as {@link call} does, also for every other status than 200.
   */
  async stream(doing: Doing, caller: Caller, path: string): Promise<ReadableStream<Uint8Array> | undefined> {
    const { RequestContext, HttpMethod, ApiException } = this.#parts.library
    const secrets: string[] = []
    try {
      return await this.#asCAError(doing, caller, secrets, async session => {
        const context = new RequestContext(session.login.cluster.server + path, HttpMethod.GET)
        await this.#authorize(context, session, caller, secrets)
        const answer = await this.#send(context, caller)
        const { httpStatusCode, headers, body } = answer
        if (httpStatusCode === 200) return body.stream() ?? undefined
        const text = await this.#bounded(answer).body.text()
        if (httpStatusCode === 410) return undefined
        throw new ApiException(httpStatusCode, '', text, headers)
      })
    } catch (error) {
      if (error instanceof NoAnswer) return undefined
      throw error
    }
  }

  /** Open calls reject; their callers know why. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#retire()
    await Promise.all([...this.#retired].map(session => session.destroy()))
  }

  async #asCAError<T>(
    doing: Doing,
    { signal }: Caller,
    secrets: readonly string[],
    send: (session: ApiSession) => Promise<T>,
  ): Promise<T> {
    const session = await untilAborted(this.#current(), signal)
    try {
      return await untilAborted(send(session), signal)
    } catch (error) {
      if (error instanceof CAError) throw error
      signal.throwIfAborted()
      // Programs and providers that gave the old credentials are asked anew, and certificates shown anew.
      if (statusOf(error) === 401 && session === this.#session) this.#retire()
      throw apiError(error, doing, { server: session.login.cluster.server, secrets })
    }
  }

  async #current(): Promise<ApiSession> {
    const login: Login = await this.#parts.login.read()
    if (this.#session?.login === login) return this.#session
    this.#retire()
    this.#session = new ApiSession(this.#parts.library, login)
    return this.#session
  }

  #retire(): void {
    const session = this.#session
    if (!session) return
    this.#session = undefined
    this.#retired.add(session)
    session.close().then(
      () => this.#retired.delete(session),
      () => this.#retired.delete(session),
    )
  }

  #configuration(session: ApiSession, caller: Caller, secrets: string[]): Configuration {
    const { ServerConfiguration, createConfiguration, wrapHttpLibrary } = this.#parts.library
    return createConfiguration({
      baseServer: new ServerConfiguration(session.login.cluster.server, {}),
      httpApi: wrapHttpLibrary({ send: async context => this.#bounded(await this.#send(context, caller)) }),
      authMethods: {
        default: {
          getName: () => 'livery',
          applySecurityAuthentication: context => this.#authorize(context, session, caller, secrets),
        },
      },
    })
  }

  #send(context: RequestContext, { signal }: Caller): Promise<ResponseContext> {
    context.setSignal(signal)
    return this.#http.send(context).toPromise()
  }

  /** The library would read a body of any length. */
  #bounded({ httpStatusCode, headers, body }: ResponseContext): ResponseContext {
    const binary = async () => {
      const bytes = await readBounded(body.stream(), MAX_ANSWER_BYTES)
      if (bytes) return bytes
      throw new RangeError(`it has more than ${MAX_ANSWER_BYTES} bytes or ${MAX_PIECES} pieces`)
    }
    const text = async () => (await binary()).toString()
    return new this.#parts.library.ResponseContext(httpStatusCode, headers, { binary, text, stream: () => null })
  }

  async #authorize(context: RequestContext, session: ApiSession, caller: Caller, secrets: string[]): Promise<void> {
    await session.authorize(context, await this.#token(session, caller))
    // Whoever gave it: a scheme, and what must not come back in a message.
    for (const [name, value] of Object.entries(context.getHeaders()))
      if (/^authorization$/i.test(name)) secrets.push(value.replace(/^\S+ /, ''))
  }

  /** Those configured for Livery go before those of the kubeconfig. */
  async #token({ login }: ApiSession, caller: Caller): Promise<string | undefined> {
    const { credentials, clock } = this.#parts
    if (credentials && credentials.isConfigured?.(caller) !== false) return (await credentials.get(caller)).token
    if (login.tokenFile === undefined) return undefined
    return (await readTokenFile(login.tokenFile, clock, caller.signal)).token
  }
}
