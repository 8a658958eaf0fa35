/** Puts in force what a source of identities says: holds them, and opens and closes their sockets one by one. */
import { isDeepStrictEqual } from 'node:util'
import { after, type Clock, Semaphore } from '@livery/core'
import type { SdsServer, SocketConfig } from '@livery/sds-server'
import type { HeldIdentities, IdentitySource } from './identity-source.ts'
import type { IdentityUnion, SourceName } from './identity-union.ts'

export interface SourceFollowerOptions {
  readonly name: SourceName
  readonly source: IdentitySource
  readonly union: Pick<IdentityUnion, 'replace'>
  readonly sds: Pick<SdsServer, 'listen' | 'stopListening' | 'review'>
  readonly clock: Clock
  /** Called when a socket could not be opened, once until it is. It is tried again every 5 s. */
  readonly onError: (error: unknown, path: string) => void
  /** Called when the peers of a socket have left that was closed. Its file was removed. */
  readonly onClosed: (path: string) => void
}

/** Changes within this time are one change: 500 pods can arrive at once. */
const PACE_MS = 100
const RETRY_MS = 5_000
/** Sockets that are opened at once: each takes file descriptors and turns of the threads that libuv has for files. */
const AT_ONCE = 16

export class SourceFollower implements Disposable {
  readonly #options: SourceFollowerOptions
  readonly #subscription: Disposable
  readonly #opening = new Semaphore(AT_ONCE)
  /** The sockets that listen, or are being opened, by path. */
  readonly #sockets = new Map<string, SocketConfig>()
  /** The paths whose failure was reported. */
  readonly #failed = new Set<string>()
  readonly #firstOpened = Promise.withResolvers<void>()
  #next: Disposable | undefined
  #retry: Disposable | undefined
  #followedAt = Number.NEGATIVE_INFINITY

  constructor(options: SourceFollowerOptions) {
    this.#options = options
    this.#subscription = options.source.changes.subscribe(() => this.#followSoon())
    this.#followSoon()
  }

  /** Resolves when the sockets of the first identities were opened, or could not be. */
  get opened(): Promise<void> {
    return this.#firstOpened.promise
  }

  /** The sockets stay: they end with the server. */
  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
    this.#next?.[Symbol.dispose]()
    this.#retry?.[Symbol.dispose]()
    this.#sockets.clear()
  }

  #followSoon(): void {
    const { clock } = this.#options
    this.#next ??= after(clock, Math.max(0, this.#followedAt + PACE_MS - clock.now()), () => {
      this.#next = undefined
      this.#followedAt = clock.now()
      this.#follow()
    })
  }

  #follow(): void {
    const { name, source, union, sds } = this.#options
    const identities = source.identities()
    if (!identities) return
    const wanted = socketsOf(identities)
    // Before other identities are held: the old socket of a path never serves the new one.
    for (const [path, socket] of this.#sockets) if (!isDeepStrictEqual(socket, wanted.get(path))) this.#close(path)
    for (const path of this.#failed) if (!wanted.has(path)) this.#failed.delete(path)
    const { added } = union.replace(name, identities)
    // Callers of shared sockets may already have asked in vain.
    if (added.length > 0) sds.review()
    const openings = [...wanted.values()]
      .filter(({ path }) => !this.#sockets.has(path))
      .map(socket => this.#open(socket))
    void Promise.all(openings).then(() => this.#firstOpened.resolve())
  }

  #close(path: string): void {
    const { sds, onClosed, onError } = this.#options
    this.#sockets.delete(path)
    sds.stopListening(path).then(
      () => onClosed(path),
      (error: unknown) => onError(error, path),
    )
  }

  /** Never rejects. */
  async #open(socket: SocketConfig): Promise<void> {
    const { path } = socket
    this.#sockets.set(path, socket)
    const isWanted = () => this.#sockets.get(path) === socket
    try {
      await this.#opening.run(async () => void (isWanted() && (await this.#options.sds.listen(socket))))
      this.#failed.delete(path)
    } catch (error) {
      // It was closed while it was being opened.
      if (!isWanted()) return
      this.#sockets.delete(path)
      if (!this.#failed.has(path)) this.#options.onError(error, path)
      this.#failed.add(path)
      this.#retryLater()
    }
  }

  #retryLater(): void {
    this.#retry ??= after(this.#options.clock, RETRY_MS, () => {
      this.#retry = undefined
      this.#followSoon()
    })
  }
}

function socketsOf(identities: HeldIdentities): ReadonlyMap<string, SocketConfig> {
  const sockets = new Map<string, SocketConfig>()
  for (const [identity, held] of identities)
    for (const socket of held.sockets) sockets.set(socket.path, { ...socket, identity })
  return sockets
}
