/** Who asks which API server: a kubeconfig, or the service account of a pod, as its files have it now. */
import { dirname } from 'node:path'
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node'
import { CAError, type PluginLog } from '@livery/core'
import { reasonOf } from '../../answers/reason.ts'
import { ChangingFile } from '../../files/changing-file.ts'
import { userinfoProblem } from '../../transport/host-port.ts'
import type { KubernetesLibrary } from './client-library.ts'

/** An API server and a user, with what their files hold in place of the files' names. */
export interface Login {
  readonly cluster: Cluster
  readonly user: User
  /** Read at each request. */
  readonly tokenFile?: string
}

export interface LoginOptions {
  readonly library: KubernetesLibrary
  /** Absent: the pod's service account. */
  readonly kubeconfig?: string
  readonly context?: string
  /** What the paths of the service account begin with; default: nothing. */
  readonly podRoot?: string
  readonly log: Pick<PluginLog, 'warn'>
}

const FILES = ['caFile', 'certFile', 'keyFile'] as const
type Contents = Readonly<Record<(typeof FILES)[number], Buffer | undefined>>

interface Parsed {
  readonly text: Buffer | undefined
  readonly cluster: Cluster
  readonly user: User
}

const MAX_BYTES = 1_048_576

export class LoginFiles {
  readonly #options: LoginOptions
  readonly #kubeconfig: ChangingFile | undefined
  readonly #files = new Map<string, ChangingFile>()
  #parsed: Parsed | undefined
  #login: { readonly parsed: Parsed; readonly contents: Contents; readonly login: Login } | undefined

  constructor(options: LoginOptions) {
    this.#options = options
    this.#kubeconfig = options.kubeconfig === undefined ? undefined : new ChangingFile(options.kubeconfig, MAX_BYTES)
  }

  /** For messages. */
  get description(): string {
    const { kubeconfig } = this.#options
    return kubeconfig === undefined ? "the pod's service account" : `the kubeconfig ${kubeconfig}`
  }

  /** The same object while nothing has changed. Rejects with a `CAError` `unavailable` for files that cannot be used. */
  async read(): Promise<Login> {
    const parsed = this.#parse(this.#kubeconfig && (await this.#content(this.#kubeconfig)))
    const { cluster, user } = parsed
    const contents = {
      caFile: await this.#file(cluster.caFile),
      certFile: await this.#file(user.certFile),
      keyFile: await this.#file(user.keyFile),
    }
    const last = this.#login
    if (last?.parsed === parsed && FILES.every(name => last.contents[name] === contents[name])) return last.login
    const login = loginOf(cluster, user, contents)
    this.#login = { parsed, contents, login }
    return login
  }

  #parse(text: Buffer | undefined): Parsed {
    if (this.#parsed && this.#parsed.text === text) return this.#parsed
    const [cluster, user] = this.#chosen(this.#load(text))
    if (cluster.skipTLSVerify)
      this.#options.log.warn(
        `${cluster.server} is not verified (insecure-skip-tls-verify in ${this.description}): tokens go to whoever answers there. Name its certificate-authority instead.`,
      )
    this.#parsed = { text, cluster, user }
    return this.#parsed
  }

  #load(text: Buffer | undefined): KubeConfig {
    const { library, kubeconfig, podRoot = '' } = this.#options
    const config = new library.KubeConfig()
    if (text === undefined || kubeconfig === undefined) {
      config.loadFromCluster(podRoot)
      return config
    }
    try {
      config.loadFromString(text.toString())
    } catch (error) {
      throw this.#unusable(reasonOf(error).split('\n')[0] ?? '')
    }
    config.makePathsAbsolute(dirname(kubeconfig))
    return config
  }

  #chosen(config: KubeConfig): readonly [Cluster, User] {
    const { context = config.getCurrentContext() } = this.#options
    if (!context) throw this.#unusable('it has no current context. Set context')
    const known = (config.getContexts() ?? []).map(({ name }) => name).join(', ')
    if (!config.getContextObject(context)) throw this.#unusable(`it has no context ${context}, only ${known || 'none'}`)
    config.setCurrentContext(context)
    const cluster = config.getCurrentCluster()
    const user = config.getCurrentUser()
    if (!cluster || !user) throw this.#unusable(`its context ${context} names no ${cluster ? 'user' : 'cluster'} of it`)
    const problem = userinfoProblem(cluster.server)
    if (problem !== undefined) throw this.#unusable(`the server of its context ${context} ${problem}`)
    return [cluster, user]
  }

  async #file(path: string | undefined): Promise<Buffer | undefined> {
    if (path === undefined) return undefined
    const file = this.#files.get(path) ?? new ChangingFile(path, MAX_BYTES)
    this.#files.set(path, file)
    return this.#content(file)
  }

  async #content(file: ChangingFile): Promise<Buffer> {
    try {
      return await file.read()
    } catch (error) {
      throw this.#unusable(reasonOf(error))
    }
  }

  #unusable(reason: string): CAError {
    return new CAError('unavailable', `Cannot use ${this.description}: ${reason}. Correct it; it is read again.`)
  }
}

function loginOf(
  { caFile: _, ...cluster }: Cluster,
  { certFile: _cert, keyFile: _key, authProvider, ...user }: User,
  { caFile, certFile, keyFile }: Contents,
): Login {
  // The library would read it once a minute only, and projected tokens rotate.
  const tokenFile: unknown = authProvider?.config?.tokenFile
  const isTokenFile = typeof tokenFile === 'string'
  return {
    cluster: { ...cluster, ...(caFile && { caData: caFile.toString('base64') }) },
    user: {
      ...user,
      ...(certFile && { certData: certFile.toString('base64') }),
      ...(keyFile && { keyData: keyFile.toString('base64') }),
      ...(!isTokenFile && authProvider && { authProvider }),
    },
    ...(isTokenFile && { tokenFile }),
  }
}
