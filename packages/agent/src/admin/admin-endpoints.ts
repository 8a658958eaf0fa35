/** Listens on the admin and the health address. The agent serves without them too: an address that is taken is retried. */
import { after } from '@livery/core/plugin'
import { readPeerCredentials } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import { formatListenAddress, type ListenAddress } from '../schema/values.ts'
import { AdminServer } from './admin-server.ts'
import type { AdminSource } from './admin-source.ts'
import type { MakeRoutes } from './routes.ts'

/** The agent that this one takes over from. It keeps its addresses until it ends. */
export interface LeavingAgent {
  readonly hasEnded: boolean
  readonly ended: Promise<void>
}

interface AdminEndpointsParts {
  /** The agent that the routes report on. */
  readonly source: AdminSource
  readonly makeRoutes: MakeRoutes | undefined
  readonly logger: Logger
  readonly predecessor: LeavingAgent | undefined
}

/** The addresses that the endpoints listen on, or wait for. */
export interface AdminAddresses {
  readonly admin: ListenAddress
  /** `undefined` if none is configured. */
  readonly health: ListenAddress | undefined
}

export class AdminEndpoints implements AsyncDisposable {
  readonly #admin: AwaitedEndpoint
  readonly #health: AwaitedEndpoint | undefined

  constructor({ admin: file, health }: Config, { source, makeRoutes, logger, predecessor }: AdminEndpointsParts) {
    const open = (routes: 'admin' | 'health', address: ListenAddress): AwaitedEndpoint => {
      const onError = (err: unknown) => logger.error({ err }, `the ${routes} endpoint failed to answer`)
      return new AwaitedEndpoint({
        routes,
        address,
        source,
        makeRoutes,
        onError,
        file,
        readPeerCredentials,
        predecessor,
      })
    }
    this.#admin = open('admin', file.address)
    this.#health = health && open('health', health.address)
    void predecessor?.ended.then(() => {
      for (const endpoint of this.#all) endpoint.retry()
    })
  }

  /** Opens the TCP endpoints, which answer while the agent starts. See {@link open}. */
  openPorts(): void {
    for (const endpoint of this.#all) if (!('path' in endpoint.address)) void endpoint.open()
  }

  /**
   * Opens the rest: call it after the SDS sockets have made their folders, where these sockets lie. Resolves when each address was
   * tried. Never rejects: a failure is reported, and tried again every 5 s.
   */
  async open(): Promise<void> {
    await Promise.all(this.#all.map(endpoint => endpoint.open()))
  }

  get #all(): readonly AwaitedEndpoint[] {
    return this.#health ? [this.#admin, this.#health] : [this.#admin]
  }

  get addresses(): AdminAddresses {
    return { admin: this.#admin.address, health: this.#health?.address }
  }

  get adminListens(): boolean {
    return this.#admin.isListening
  }

  /** Why an endpoint does not listen, with the remedy, one line each. */
  problems(): readonly string[] {
    return this.#all.flatMap(({ problem }) => problem ?? [])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map(endpoint => endpoint[Symbol.asyncDispose]()))
  }
}

interface EndpointOptions extends Omit<Parameters<typeof AdminServer.listen>[0], 'signal'> {
  readonly predecessor: LeavingAgent | undefined
}

/** How soon an address that cannot be listened on is tried again. */
const RETRY_MS = 5_000

type State =
  /** `problem`: why the previous attempt failed, if there was one. */
  | { readonly kind: 'opening'; readonly problem?: string }
  | { readonly kind: 'waiting'; readonly problem: string; readonly retry: Disposable }
  | { readonly kind: 'listening'; readonly server: AdminServer }
  | { readonly kind: 'closed' }

class AwaitedEndpoint implements AsyncDisposable {
  readonly #options: EndpointOptions
  readonly #closing = new AbortController()
  #state: State = { kind: 'opening' }
  /** The attempt that runs, or ran last. */
  #attempt: Promise<void> | undefined
  /** The last text reported: the same one is not reported twice. */
  #reported: string | undefined

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  get address(): ListenAddress {
    return this.#state.kind === 'listening' ? this.#state.server.address : this.#options.address
  }

  get isListening(): boolean {
    return this.#state.kind === 'listening'
  }

  get problem(): string | undefined {
    return 'problem' in this.#state ? this.#state.problem : undefined
  }

  /** Further calls wait for the last attempt. */
  open(): Promise<void> {
    this.#attempt ??= this.#listen()
    return this.#attempt
  }

  /** Retries at once if it waits. */
  retry(): void {
    if (this.#state.kind !== 'waiting') return
    const { problem, retry } = this.#state
    retry[Symbol.dispose]()
    this.#state = { kind: 'opening', problem }
    this.#attempt = this.#listen()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('the agent is shutting down'))
    await this.#attempt
    const state = this.#state
    this.#state = { kind: 'closed' }
    if (state.kind === 'waiting') state.retry[Symbol.dispose]()
    if (state.kind === 'listening') await state.server[Symbol.asyncDispose]()
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing
    try {
      const server = await AdminServer.listen({ ...this.#options, signal })
      this.#state = { kind: 'listening', server }
      if (this.#reported !== undefined) this.#report('endpoint-acquired')
    } catch (error) {
      if (!signal.aborted) this.#wait(error instanceof Error ? error.message : String(error))
    }
  }

  /** Whatever occupies the address now, the next attempt may succeed. */
  #wait(problem: string): void {
    const { source, predecessor } = this.#options
    const retry = after(source.clock, RETRY_MS, () => this.retry())
    this.#state = { kind: 'waiting', problem, retry }
    this.#report(predecessor?.hasEnded === false ? 'endpoint-handover' : 'endpoint-waiting', problem)
  }

  #report(kind: 'endpoint-waiting' | 'endpoint-handover' | 'endpoint-acquired', message = ''): void {
    const reported = `${kind}: ${message}`
    if (reported === this.#reported) return
    this.#reported = reported
    const { routes, source } = this.#options
    source.security?.({ kind, endpoint: routes, address: formatListenAddress(this.address), message })
  }
}
