/** One Secret at the API server: its metadata are watched, and a change there triggers a read of its content. */
import {
  type ApiConnection,
  apiRetryMs,
  ObjectsApi,
  ObjectWatcher,
  type WatchState,
} from '@livery/ca-plugins/kubernetes-api'
import type { KubernetesObject } from '@livery/core'
import { after, CAError, type Clock, withDeadline } from '@livery/core/plugin'

/** Least time between reads of a Secret that changes constantly. */
const PACE_MS = 1_000
const TIMEOUT_MS = 30_000

interface FollowedSecretOptions extends KubernetesObject {
  readonly connection: ApiConnection
  readonly clock: Clock
  readonly onChange: () => void
  readonly onState: (state: WatchState) => void
  readonly onEnd: () => void
}

export class FollowedSecret implements Disposable, AsyncDisposable {
  readonly #options: FollowedSecretOptions
  readonly #path: string
  readonly #what: string
  readonly #watcher: ObjectWatcher<string | undefined>
  readonly #ending = new AbortController()
  /** The version that was read last; `undefined` if there was no such Secret, `null` if nothing was read. */
  #version: string | undefined | null = null
  #failures = 0
  /** Runs until the next call may be made; `isDue`: a call follows then. */
  #pause: Disposable | undefined
  #isDue = false

  constructor(options: FollowedSecretOptions) {
    const { connection, clock, namespace, name, onState } = options
    this.#options = options
    this.#path = `/api/v1/namespaces/${namespace}/secrets`
    this.#what = `the Secret ${namespace}/${name}`
    this.#watcher = new ObjectWatcher({
      // RBAC rules for list and watch can name one Secret only with this selector.
      api: new ObjectsApi({
        connection,
        clock,
        path: this.#path,
        fieldSelector: `metadata.name=${name}`,
        resource: 'secrets',
        what: this.#what,
        metadataOnly: true,
      }),
      table: {
        maxObjects: 1,
        read: versionOf,
        replace: ([version]) => this.#see(version),
        put: object => this.#see(versionOf(object)),
        delete: () => this.#see(undefined),
      },
      clock,
      onState,
    })
  }

  async read(fields: readonly string[]): Promise<ReadonlyMap<string, Buffer> | undefined> {
    this.#isDue = false
    this.#wait(PACE_MS)
    try {
      const object = await this.#get()
      this.#failures = 0
      this.#version = object && versionOf(object)
      return object && decode(object, fields)
    } catch (error) {
      this.#version = null
      this.#isDue = true
      this.#wait(apiRetryMs(++this.#failures, error))
      throw error
    }
  }

  [Symbol.dispose](): void {
    void this[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error('nobody asks for it any more'))
    this.#pause?.[Symbol.dispose]()
    this.#options.onEnd()
    await this.#watcher[Symbol.asyncDispose]()
  }

  /** `undefined` if the server reports that the Secret does not exist. */
  async #get(): Promise<object | undefined> {
    const { connection, clock, name } = this.#options
    const call = { what: `get ${this.#what}`, verb: 'get', resource: 'secrets' } as const
    const error = () =>
      new CAError('timeout', `Cannot ${call.what}: no answer within ${TIMEOUT_MS} ms. It is asked again.`)
    const { status, json } = await withDeadline({ clock, ms: TIMEOUT_MS, error, signal: this.#ending.signal }, signal =>
      connection.request(call, { signal }, { path: `${this.#path}/${name}`, expected: [404] }),
    )
    if (status !== 404) return json
    // A proxy on the way can answer 404 too, and then nothing was deleted.
    if (json['reason'] === 'NotFound') return undefined
    const reason = 'the answer is 404, not from an API server. Look at what is on the way'
    throw new CAError('bad-response', `Cannot ${call.what}: ${reason}; it is asked again.`)
  }

  #see(version: string | undefined): void {
    if (version === this.#version) return
    this.#isDue = true
    if (!this.#pause) this.#wait(0)
  }

  /** Waits by lifetimes, not dates: a clock that is set back delays no change. */
  #wait(ms: number): void {
    this.#pause?.[Symbol.dispose]()
    if (this.#ending.signal.aborted) return
    const { clock, onChange } = this.#options
    this.#pause = after(clock, ms, () => {
      this.#pause = undefined
      if (!this.#isDue) return
      this.#isDue = false
      this.#wait(PACE_MS)
      onChange()
    })
  }
}

function versionOf(object: unknown): string | undefined {
  const { resourceVersion } = Object(Object(object).metadata)
  return typeof resourceVersion === 'string' ? resourceVersion : undefined
}

function decode(object: object, fields: readonly string[]): ReadonlyMap<string, Buffer> {
  const { data } = Object(object)
  return new Map(
    fields.flatMap(field => {
      const value: unknown = Object(data)[field]
      return typeof value === 'string' && value !== '' ? [[field, Buffer.from(value, 'base64')] as const] : []
    }),
  )
}
