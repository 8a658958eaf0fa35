/** Connects as a user of a kubeconfig: by its token, its client certificate, or the output of its program. */
import { Agent as HttpsAgent, type AgentOptions as HttpsAgentOptions, type RequestOptions } from 'node:https'
import { isIP } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import type { KubeConfig } from '@kubernetes/client-node'
import { caError } from '../../answers/ca-error.ts'
import { reasonOf } from '../../answers/reason-of.ts'
import { scrub } from '../../answers/scrub.ts'
import { type ApiSession, type AuthorizedPool, type Login, UNLIMITED } from '../../kubernetes-api/api-login.ts'
import { AGENT_OPTIONS, HttpPool, plainAgent } from '../../transport/http-pool.ts'

export class KubeconfigSession implements ApiSession {
  readonly login: Login
  readonly #user: PooledUser
  /** Has no client certificate: the API server would prefer that to a token. */
  readonly #bearer: PooledUser

  /** `asUser`, `asNobody`: a new configuration of the client library, as the user of the login and as nobody. */
  constructor(login: Login, asUser: () => KubeConfig, asNobody: () => KubeConfig) {
    this.login = login
    this.#user = new PooledUser(asUser)
    this.#bearer = new PooledUser(asNobody)
  }

  async authorize(token: string | undefined): Promise<AuthorizedPool> {
    if (token === undefined) return await this.#user.authorize()
    const { pool, headers } = await this.#bearer.authorize()
    return { pool, headers: { ...headers, authorization: `Bearer ${token}` } }
  }

  close(): void {
    this.#user.close()
    this.#bearer.close()
  }
}

/** One user, and the connections that are made with its client certificate. */
class PooledUser {
  readonly #create: () => KubeConfig
  #config: KubeConfig
  #pool: HttpPool | undefined

  constructor(create: () => KubeConfig) {
    this.#create = create
    this.#config = create()
  }

  async authorize(): Promise<AuthorizedPool> {
    const options = await this.#options()
    this.#pool ??= new HttpPool(agentOf(options, this.#config))
    return { pool: this.#pool, headers: headersOf(options) }
  }

  close(): void {
    this.#pool?.close()
  }

  /** The library runs programs and asks providers here. */
  async #options(): Promise<RequestOptions> {
    const options: RequestOptions = {}
    try {
      await this.#config.applyToHTTPSOptions(options)
      return options
    } catch (error) {
      const reason = this.#reasonOf(error)
      // The library keeps what a program printed, usable or not.
      this.#config = this.#create()
      throw caError('unauthenticated', {
        action: `log in at ${this.#config.getCurrentCluster()?.server}`,
        reason,
        remedy: 'Correct the user of the kubeconfig',
      })
    }
  }

  #reasonOf(error: unknown): string {
    // The library reads a program's output unchecked, and the parser quotes it, which may be a token.
    if (this.#config.getCurrentUser()?.exec && (error instanceof SyntaxError || error instanceof TypeError))
      return 'its program printed no ExecCredential with a status'
    return scrub(reasonOf(error), [])
  }
}

/** The library's agents keep no connection: they are used only to go through a proxy. */
function agentOf(options: RequestOptions, config: KubeConfig): ConstructorParameters<typeof HttpPool>[0] {
  const { server = '', proxyUrl } = config.getCurrentCluster() ?? {}
  if (proxyUrl && typeof options.agent === 'object') return options.agent
  if (server.startsWith('http:')) return plainAgent(UNLIMITED)
  const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername } = options
  const tls = { ca, cert, key, pfx, passphrase, rejectUnauthorized, ...(servername && namesOf(servername)) }
  return new HttpsAgent({ ...AGENT_OPTIONS, ...UNLIMITED, ...tls })
}

/** Verifies an address and does not send it, as kubectl does: TLS allows no addresses as names, and Node 26 throws. */
function namesOf(servername: string): HttpsAgentOptions {
  if (!isIP(servername)) return { servername }
  return { servername: '', checkServerIdentity: (_, certificate) => checkServerIdentity(servername, certificate) }
}

function headersOf({ headers = {}, auth }: RequestOptions): Readonly<Record<string, string>> {
  const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]))
  return auth ? { ...sent, authorization: `Basic ${Buffer.from(auth).toString('base64')}` } : sent
}
