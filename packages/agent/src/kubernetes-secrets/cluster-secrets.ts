/** The Secrets of the configured namespaces: which ones callers may name, and whether the API server allows their watch. */
import { ApiConnection, PodLogin, type WatchState } from '@livery/ca-plugins/kubernetes-api'
import type { KubernetesObject } from '@livery/core'
import type { SecretObjects } from '@livery/core/file-secrets'
import type { Clock, PluginLog } from '@livery/core/plugin'
import { FollowedSecret } from './followed-secret.ts'

/** Each is a connection to the API server. */
const MAX_WATCHED = 256

export class ClusterSecrets implements SecretObjects, AsyncDisposable {
  readonly #namespaces: readonly string[]
  readonly #clock: Clock
  readonly #log: Pick<PluginLog, 'warn' | 'info'>
  readonly #connection: ApiConnection
  readonly #followed = new Set<FollowedSecret>()
  /** Secrets whose watch fails. */
  readonly #unwatched = new Set<FollowedSecret>()

  /** Throws an `Error` outside of a pod. `root`: where the pod's service account is mounted, for tests. */
  constructor(namespaces: readonly string[], clock: Clock, log: Pick<PluginLog, 'warn' | 'info'>, root?: string) {
    this.#namespaces = namespaces
    this.#clock = clock
    this.#log = log
    const remedy = 'Remove the section kubernetesSecrets, or run it in a pod'
    const login = new PodLogin(remedy, root)
    this.#connection = new ApiConnection(login, clock)
  }

  get room(): number {
    return MAX_WATCHED - this.#followed.size
  }

  refusal({ namespace }: KubernetesObject): string | undefined {
    if (this.#namespaces.includes(namespace)) return undefined
    return `is in the namespace ${namespace}, which kubernetesSecrets.namespaces does not name`
  }

  follow(object: KubernetesObject, onChange: () => void): FollowedSecret {
    const { namespace, name } = object
    if (!this.#namespaces.includes(namespace))
      throw new TypeError(
        `Cannot follow the Secret ${namespace}/${name}: kubernetesSecrets.namespaces does not name it`,
      )
    const followed: FollowedSecret = new FollowedSecret({
      ...object,
      clock: this.#clock,
      connection: this.#connection,
      onChange,
      onState: state => this.#onState(followed, state),
      onEnd: () => {
        this.#followed.delete(followed)
        this.#unwatched.delete(followed)
      },
    })
    this.#followed.add(followed)
    return followed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#followed, each => each[Symbol.asyncDispose]()))
    await this.#connection[Symbol.asyncDispose]()
  }

  /** Logs once for all: if one watch fails, the others mostly do too. */
  #onState(followed: FollowedSecret, state: WatchState): void {
    const log = this.#log
    if (state.kind !== 'watching') {
      if (this.#unwatched.size === 0) log.warn(`a change of a Secret is not seen at present: ${state.error}`)
      this.#unwatched.add(followed)
    } else if (this.#unwatched.delete(followed) && this.#unwatched.size === 0) log.info('all Secrets are watched')
  }
}
