/** One login at the API server: how requests are authorised with it, and the connections that they go over. */
import type { KubeConfig, RequestContext } from '@kubernetes/client-node'
import { CAError } from '@livery/core'
import { reasonOf } from '../../answers/reason.ts'
import { scrub } from '../../answers/scrub.ts'
import type { KubernetesLibrary } from './client-library.ts'
import type { Login } from './login.ts'

type Dispatcher = NonNullable<ReturnType<RequestContext['getDispatcher']>>

export class ApiSession {
  readonly login: Login
  readonly #user: Door
  readonly #bearer: Door

  constructor(library: KubernetesLibrary, login: Login) {
    const { cluster, user } = login
    this.login = login
    this.#user = new Door(() => configOf(library, cluster, user))
    // Without a client certificate, which the API server would go by before it looks at a token.
    this.#bearer = new Door(() => configOf(library, cluster, { name: 'bearer' }))
  }

  /** With `token` where there is one, else as the user of the login. Rejects with a `CAError` `unauthenticated`. */
  async authorize(context: RequestContext, token: string | undefined): Promise<void> {
    await (token === undefined ? this.#user : this.#bearer).open(context)
    if (token !== undefined) context.setHeaderParam('Authorization', `Bearer ${token}`)
  }

  /** Waits for the calls that are open. */
  async close(): Promise<void> {
    await Promise.all([this.#user.dispatcher?.close(), this.#bearer.dispatcher?.close()])
  }

  /** Ends the calls that are open. */
  async destroy(): Promise<void> {
    await Promise.all([this.#user.dispatcher?.destroy(), this.#bearer.dispatcher?.destroy()])
  }
}

/** One user, and the pool of connections that are made with its client certificate. */
class Door {
  dispatcher: Dispatcher | undefined
  readonly #create: () => KubeConfig
  #config: KubeConfig

  constructor(create: () => KubeConfig) {
    this.#create = create
    this.#config = create()
  }

  async open(context: RequestContext): Promise<void> {
    try {
      await this.#config.applySecurityAuthentication(context)
    } catch (error) {
      // It keeps what a program printed, usable or not.
      this.#config = this.#create()
      throw new CAError(
        'unauthenticated',
        `Cannot log in at ${this.#config.getCurrentCluster()?.server}: ${this.#reasonOf(error)}. Correct the user of the kubeconfig.`,
      )
    }
    // The library makes a pool for each request, and closes none.
    this.dispatcher ??= context.getDispatcher()
    if (this.dispatcher) context.setDispatcher(this.dispatcher)
  }

  #reasonOf(error: unknown): string {
    // The library reads what a program prints without a look at it, and the parser quotes it, which may be a token.
    if (this.#config.getCurrentUser()?.exec && (error instanceof SyntaxError || error instanceof TypeError))
      return 'its program printed no ExecCredential with a status'
    return scrub(reasonOf(error), [])
  }
}

function configOf(library: KubernetesLibrary, cluster: Login['cluster'], user: Login['user']): KubeConfig {
  const config = new library.KubeConfig()
  config.loadFromClusterAndUser(cluster, user)
  return config
}
