/**
 * A UNIX socket that appears whole: bound under a private name, its mode set, and only then moved to its path. It is
 * made again when it vanishes, and on closing it is removed only if it is still the same file.
 */
import { once } from 'node:events'
import { type BigIntStats, constants, lstatSync, unlinkSync } from 'node:fs'
import { chmod, chown, link, lstat, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { Clock } from '@livery/core'
import { type AcceptWaiting, acceptTogether, failureReporter } from './accept-connections.ts'
import { retryTransient } from './retry-transient.ts'
import { SdsServerError, systemErrorCode } from './sds-server-error.ts'
import {
  bindFailure,
  checkPathLength,
  inspectPath,
  lstatIfPresent,
  MAX_PATH_BYTES,
  prepareDirectory,
} from './socket-path.ts'

export interface SocketFileOptions {
  readonly path: string
  /** Default: 0o660. */
  readonly mode?: number
  /** Numeric; default: that of the process. */
  readonly owner?: number
  /** Numeric; default: that of the process. */
  readonly group?: number
  /** Takes the path from a live owner, which goes on serving its connections. Default: false. */
  readonly takeover?: boolean
  readonly clock: Clock
  /** Default: one connection a turn of the event loop, as libuv takes them. */
  readonly acceptWaiting?: AcceptWaiting | undefined
  /** Gives up what is tried again. */
  readonly signal?: AbortSignal | undefined
  /** ` (pid 7)` for a message about the process that listens at the path, or an empty text. */
  describeOwner?(path: string): Promise<string>
  onConnection(socket: Socket): void
  onEvent(event: SocketFileEvent): void
}

export type SocketFileEvent =
  /** The file had vanished and is there again; connections were not disturbed. */
  | { readonly kind: 'socket-recreated'; readonly path: string }
  /** Another server took the path; this one goes on serving the connections that it has. */
  | { readonly kind: 'socket-superseded'; readonly path: string }
  /** The file vanished and could not be made again; that is tried every 5 s. */
  | { readonly kind: 'socket-lost'; readonly path: string; readonly error: unknown }
  /** Connections could not be accepted, most often for want of file descriptors. At most one in 10 s. */
  | { readonly kind: 'accept-failed'; readonly path: string; readonly error: unknown }

const WATCH_INTERVAL_MS = 5_000
const DEFAULT_MODE = 0o660
/** As much as the kernel takes by default: an Envoy per pod connects at once after a restart. */
const BACKLOG = 4096

type State =
  | { readonly kind: 'closed' }
  | { readonly kind: 'listening'; readonly listener: Listener; readonly watch: Disposable }
  /** Somebody else has the path now. */
  | { readonly kind: 'superseded'; readonly listener: Listener }

interface Listener {
  readonly server: Server
  readonly file: BigIntStats
}

/** Listens on a path until it is closed. */
export class SocketFile implements AsyncDisposable {
  readonly #options: SocketFileOptions
  #state: State
  /** The look at the file that is going on, if there is one. */
  #look: Promise<void> = Promise.resolve()

  private constructor(options: SocketFileOptions, listener: Listener) {
    this.#options = options
    this.#state = this.#listening(listener)
  }

  /** Rejects with an `SdsServerError`. What may pass by itself is tried again: five times in all, over 15 s. */
  static async listen(options: SocketFileOptions): Promise<SocketFile> {
    checkPathLength(options.path)
    const listener = await retryTransient(options.clock, () => appear(options), options.signal)
    return new SocketFile(options, listener)
  }

  get state(): State['kind'] {
    return this.#state.kind
  }

  /** Accepts no more connections, and removes the file unless it is another's. Those accepted are not touched. */
  async close(): Promise<void> {
    const state = this.#state
    if (state.kind === 'listening') state.watch[Symbol.dispose]()
    this.#state = { kind: 'closed' }
    if (state.kind !== 'closed') closeListener(state.listener, this.#options.path)
    await this.#look
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #listening(listener: Listener): State {
    const { clock } = this.#options
    const watch = clock.at(clock.now() + WATCH_INTERVAL_MS, () => {
      this.#look = this.#lookAtFile(listener)
    })
    return { kind: 'listening', listener, watch }
  }

  async #lookAtFile(listener: Listener): Promise<void> {
    const { path } = this.#options
    let next = listener
    let event: SocketFileEvent | undefined
    try {
      if (!isSameFile(await lstatIfPresent(path), listener.file)) {
        if ((await inspectPath(path)) === 'live') event = { kind: 'socket-superseded', path }
        else {
          next = await appear({ ...this.#options, takeover: false })
          event = { kind: 'socket-recreated', path }
        }
      }
    } catch (error) {
      event = { kind: 'socket-lost', path, error }
    }
    this.#follow(listener, next, event)
  }

  #follow(before: Listener, next: Listener, event: SocketFileEvent | undefined): void {
    if (next !== before) before.server.close()
    if (this.#state.kind === 'closed') {
      if (next !== before) closeListener(next, this.#options.path)
      return
    }
    this.#state = event?.kind === 'socket-superseded' ? { kind: 'superseded', listener: next } : this.#listening(next)
    if (event) this.#options.onEvent(event)
  }
}

async function appear(options: SocketFileOptions): Promise<Listener> {
  const { path } = options
  await prepareDirectory(path)
  const occupant = await inspectPath(path)
  if (occupant === 'live' && !options.takeover) {
    throw new SdsServerError(
      'live-owner',
      `Cannot listen on ${path}: a live owner${(await options.describeOwner?.(path)) ?? ''} accepts connections there; ` +
        'stop it, or choose another path',
    )
  }
  try {
    return await bindAndPlace(options, occupant !== 'nothing')
  } catch (error) {
    // Somebody else made a socket there just now: look again at whose it is.
    if (systemErrorCode(error) === 'EEXIST') return await appear(options)
    throw await bindFailure(path, error)
  }
}

async function bindAndPlace(options: SocketFileOptions, replace: boolean): Promise<Listener> {
  const { path, mode = DEFAULT_MODE, owner = -1, group = -1 } = options
  // Until its own mode is right, nobody else can reach the socket.
  const directory = await mkdtemp(join(dirname(path), '.sds-'))
  const privatePath = join(directory, 's')
  const server = createServer()
  try {
    await chmod(directory, 0o700)
    await bind(server, privatePath, directory)
    const onFailure = failureReporter(options.clock, error => options.onEvent({ kind: 'accept-failed', path, error }))
    server.on('connection', socket => acceptTogether(server, socket, { ...options, onFailure }))
    server.on('error', onFailure)
    await chmod(privatePath, mode)
    if (owner !== -1 || group !== -1) await chown(privatePath, owner, group)
    await place(privatePath, path, replace)
    return { server, file: await lstat(path, { bigint: true }) }
  } catch (error) {
    server.close()
    throw error
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** The private name is longer than the path, so where it is too long it is reached through the open directory. */
async function bind(server: Server, privatePath: string, directory: string): Promise<void> {
  await using handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY)
  const path = Buffer.byteLength(privatePath) <= MAX_PATH_BYTES ? privatePath : `/proc/self/fd/${handle.fd}/s`
  server.listen({ path, backlog: BACKLOG })
  await once(server, 'listening')
}

/** Only what was looked at is replaced: a link fails where somebody else was quicker. */
async function place(from: string, to: string, replace: boolean): Promise<void> {
  if (replace) return await rename(from, to)
  try {
    await link(from, to)
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') throw error
    // Some file systems have no links to sockets.
    await rename(from, to)
  }
}

/** Looks and removes in one turn of the event loop, so that a successor hardly fits in between. */
function closeListener({ server, file }: Listener, path: string): void {
  server.close()
  try {
    const present = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (isSameFile(present, file)) unlinkSync(path)
  } catch {
    // Closing goes on: a file that cannot be removed any more is a stale socket, and the next server replaces it.
  }
}

/** An inode number is used again at once on some file systems, so the time of birth counts too. */
function isSameFile(a: BigIntStats | undefined, b: BigIntStats): boolean {
  return a !== undefined && a.dev === b.dev && a.ino === b.ino && a.birthtimeNs === b.birthtimeNs
}
