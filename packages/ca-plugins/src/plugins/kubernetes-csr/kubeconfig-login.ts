/** The login of a kubeconfig, as it and its files are now. */
import { dirname } from 'node:path'
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node'
import type { CAError, PluginLog } from '@livery/core/plugin'
import { ChangingFile } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { reasonOf } from '../../answers/reason-of.ts'
import type { Login, LoginSource } from '../../kubernetes-api/api-login.ts'
import { userinfoProblem } from '../../transport/host-port.ts'
import type { KubernetesLibrary } from './client-library.ts'
import { KubeconfigSession } from './kubeconfig-session.ts'

const FILES = ['caFile', 'certFile', 'keyFile'] as const
type Contents = Readonly<Record<(typeof FILES)[number], Buffer | undefined>>

interface Parsed {
  readonly text: Buffer
  readonly cluster: Cluster
  readonly user: User
}

const MAX_BYTES = 1_048_576

export class KubeconfigLogin implements LoginSource {
  readonly #library: KubernetesLibrary
  readonly #path: string
  readonly #log: Pick<PluginLog, 'warn'>
  readonly #context: string | undefined
  readonly #kubeconfig: ChangingFile
  readonly #files = new Map<string, ChangingFile>()
  #parsed: Parsed | undefined
  #login: { readonly parsed: Parsed; readonly contents: Contents; readonly login: Login } | undefined

  /** `kubeconfig`: its path. */
  constructor(library: KubernetesLibrary, kubeconfig: string, log: Pick<PluginLog, 'warn'>, context?: string) {
    this.#library = library
    this.#path = kubeconfig
    this.#log = log
    this.#context = context
    this.#kubeconfig = new ChangingFile(kubeconfig, MAX_BYTES)
  }

  async read(): Promise<Login> {
    const parsed = this.#parse(await this.#content(this.#kubeconfig))
    const { cluster, user } = parsed
    const contents = {
      caFile: await this.#file(cluster.caFile),
      certFile: await this.#file(user.certFile),
      keyFile: await this.#file(user.keyFile),
    }
    const last = this.#login
    if (last?.parsed === parsed && FILES.every(name => last.contents[name] === contents[name])) return last.login
    const login = loginOf(this.#library, cluster, user, contents)
    this.#login = { parsed, contents, login }
    return login
  }

  #parse(text: Buffer): Parsed {
    if (this.#parsed?.text === text) return this.#parsed
    const [cluster, user] = this.#chosen(this.#load(text))
    if (cluster.skipTLSVerify)
      this.#log.warn(
        `${cluster.server} is not verified (insecure-skip-tls-verify in the kubeconfig ${this.#path}): tokens go to any server there. Name its certificate-authority instead.`,
      )
    this.#parsed = { text, cluster, user }
    return this.#parsed
  }

  #load(text: Buffer): KubeConfig {
    const library = this.#library
    const kubeconfig = this.#path
    const config = new library.KubeConfig()
    try {
      config.loadFromString(text.toString())
    } catch (error) {
      throw this.#unusable(reasonOf(error).split('\n')[0] ?? '')
    }
    config.makePathsAbsolute(dirname(kubeconfig))
    return config
  }

  #chosen(config: KubeConfig): readonly [Cluster, User] {
    const context = this.#context ?? config.getCurrentContext()
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
    const action = `use the kubeconfig ${this.#path}`
    return caError('unavailable', { action, reason, remedy: 'Correct it; it is read again', local: true })
  }
}

function loginOf(
  library: KubernetesLibrary,
  { caFile: _, ...cluster }: Cluster,
  { certFile: _cert, keyFile: _key, authProvider, ...user }: User,
  { caFile, certFile, keyFile }: Contents,
): Login {
  // The library would read it only once a minute, and projected tokens rotate.
  const tokenFile: unknown = authProvider?.config?.tokenFile
  const isTokenFile = typeof tokenFile === 'string'
  const ownCluster = { ...cluster, ...(caFile && { caData: caFile.toString('base64') }) }
  const ownUser = {
    ...user,
    ...(certFile && { certData: certFile.toString('base64') }),
    ...(keyFile && { keyData: keyFile.toString('base64') }),
    ...(!isTokenFile && authProvider && { authProvider }),
  }
  const configAs = (as: User) => () => {
    const config = new library.KubeConfig()
    config.loadFromClusterAndUser(ownCluster, as)
    return config
  }
  const login: Login = {
    server: cluster.server,
    ...(isTokenFile && { tokenFile }),
    open: () => new KubeconfigSession(login, configAs(ownUser), configAs({ name: 'bearer' })),
  }
  return login
}
