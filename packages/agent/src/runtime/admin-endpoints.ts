/** Listens on the admin and the health address, without which the agent serves as well: where one is taken, it waits. */
import { after } from '@livery/core'
import { readPeerCredentials } from '@livery/native-keygen'
import { AdminServer } from '../admin/admin-server.ts'
import type { AdminSource } from '../admin/admin-source.ts'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import { formatListenAddress, type ListenAddress } from '../schema/values.ts'
import type { Predecessor } from '../takeover/predecessor.ts'

interface AdminEndpointsParts {
  /** Answered from. */
  readonly source: AdminSource
  readonly logger: Logger
  /** The agent that this one takes over from, if there is one. It keeps its addresses until it ends. */
  readonly predecessor: Predecessor | undefined
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

  constructor({ admin: file, health }: Config, { source, logger, predecessor }: AdminEndpointsParts) {
    const open = (routes: 'admin' | 'health', address: ListenAddress): AwaitedEndpoint => {
      const onError = (err: unknown) => logger.error({ err }, `the ${routes} endpoint failed to answer`)
      return new AwaitedEndpoint({ routes, address, source, onError, file, readPeerCredentials, predecessor })
    }
    this.#admin = open('admin', file.address)
    this.#health = health && open('health', health.address)
    void predecessor?.ended.then(() => this.#retry())
  }

  /** Those with a TCP address, which answer while the agent starts. See {@link open}. */
  openPorts(): void {
    for (const endpoint of [this.#admin, this.#health])
      if (endpoint && !('path' in endpoint.address)) void endpoint.open()
  }

  /**
   * All that are not open: call it after the SDS sockets have made their folders, as their callers need them. Resolves when
   * each address was tried. Never rejects: a failure is reported, and tried again every 5 s.
   */
  async open(): Promise<void> {
    await Promise.all([this.#admin.open(), this.#health?.open()])
  }

  get addresses(): AdminAddresses {
    return { admin: this.#admin.address, health: this.#health?.address }
  }

  /** Why an endpoint does not listen, with the remedy, one line each. */
  problems(): readonly string[] {
    return [this.#admin, this.#health].flatMap(endpoint => endpoint?.problem ?? [])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#admin[Symbol.asyncDispose](), this.#health?.[Symbol.asyncDispose]()])
  }

  #retry(): void {
    this.#admin.retry()
    this.#health?.retry()
  }
}

interface EndpointOptions extends Omit<Parameters<typeof AdminServer.listen>[0], 'signal'> {
  readonly predecessor: Predecessor | undefined
}

/** How soon an address that cannot be listened on is tried again. */
const RETRY_MS = 5_000

type State =
  /** `problem`: of the attempt before, if there was one. */
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
  /** Not reported again while it is the same. */
  #reported: string | undefined

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  get address(): ListenAddress {
    return this.#state.kind === 'listening' ? this.#state.server.address : this.#options.address
  }

  get problem(): string | undefined {
    return 'problem' in this.#state ? this.#state.problem : undefined
  }

  /** Further calls wait for the last attempt. */
  open(): Promise<void> {
    this.#attempt ??= this.#listen()
    return this.#attempt
  }

  /** At once, if it waits. */
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

  /** Whatever keeps the address now, the next attempt may succeed. */
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
