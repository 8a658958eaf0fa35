/**
 * A UNIX socket that appears whole: bound under a private name, its mode set, and only then moved to its path. It is
 * made again when it vanishes, and on closing it is removed only if it is still the same file.
 */
import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import type { PeerCredentials, ReadPeerCredentials } from '@livery/core'
import { after, type Clock, systemErrorCode } from '@livery/core/plugin'
import { type AcceptWaiting, type Arrival, acceptTogether, failureReporter } from './accept-connections.ts'
import { describePeer, readListener } from './peer-descriptor.ts'
import { bindAndPlace, closeListener, isSameFile, type Listener, type PlacementOptions } from './placed-socket.ts'
import { retryTransient } from './retry-transient.ts'
import { LiveOwnerError, SdsServerError } from './sds-server-error.ts'
import {
  bindFailure,
  checkPathLength,
  inspectPath,
  lstatIfPresent,
  type PathOccupant,
  prepareDirectory,
} from './socket-path.ts'
import { closedFolder } from './unreachable-folder.ts'

export interface SocketFileOptions extends PlacementOptions {
  /** Takes the path from a live owner, which continues to serve its connections. Default: false. */
  readonly takeover?: boolean
  readonly clock: Clock
  /** Default: one connection a turn of the event loop, as libuv takes them. */
  readonly acceptWaiting?: AcceptWaiting | undefined
  /** Ends the retries. */
  readonly signal?: AbortSignal | undefined
  /** Reads which process listens at the path. Default: the owner of the file counts. */
  readonly readPeerCredentials?: ReadPeerCredentials | undefined
  onArrival(arrival: Arrival): void
  onEvent(event: SocketFileEvent): void
}

export type SocketFileEvent =
  /** The file vanished, was moved, or was replaced by a successor that failed. It was made again; connections continue. */
  | { readonly kind: 'socket-recreated'; readonly path: string }
  /**
   * Another process, of root or of this user, took the path; this one continues to serve its connections, and takes the
   * path back once nobody listens there.
   */
  | { readonly kind: 'socket-superseded'; readonly path: string }
  /** Another user replaced this socket by a socket, a link or a file; it was restored. */
  | { readonly kind: 'socket-reclaimed'; readonly path: string; readonly from: string }
  /** The folder was opened after the start to others, who can replace the socket. Reported when the file is made again. */
  | { readonly kind: 'socket-folder-unsafe'; readonly path: string; readonly error: unknown }
  /** The user or group that the socket is given to may not get through a folder of its path. Reported once, at the start. */
  | { readonly kind: 'socket-unreachable'; readonly path: string; readonly reason: string }
  /** The file vanished and could not be made again; that is tried every 5 s. */
  | { readonly kind: 'socket-lost'; readonly path: string; readonly error: unknown }
  /** Another process listens on the path, which is tried again every 5 s. Reported again only if the reason changes. */
  | {
      readonly kind: 'socket-waiting'
      readonly path: string
      readonly error: Error
      /** This server hands over, and the process is of root or of this user, as its successor is. */
      readonly isHandover?: true
    }
  /** A socket that was waiting listens. */
  | { readonly kind: 'socket-acquired'; readonly path: string }
  /** Connections could not be accepted, mostly for lack of file descriptors. At most one in 10 s. */
  | { readonly kind: 'accept-failed'; readonly path: string; readonly error: unknown }

const WATCH_INTERVAL_MS = 5_000
/** The listening socket files of this process. */
const LISTENING = new Set<SocketFile>()

type State =
  | { readonly kind: 'closed' }
  /** `superseded`: somebody else has the path now. */
  | { readonly kind: 'listening' | 'superseded'; readonly listener: Listener; readonly watch: Disposable }

/** Listens on a path until it is closed. */
export class SocketFile implements AsyncDisposable {
  readonly #options: SocketFileOptions
  #state: State
  /** The check of the file that is running, if there is one. */
  #look: Promise<void> = Promise.resolve()

  private constructor(options: SocketFileOptions, listener: Listener) {
    this.#options = options
    this.#state = this.#watched(listener, 'listening')
  }

  /** Rejects with an `SdsServerError`. A failure that can end on its own is retried: five attempts in all, over 15 s. */
  static async listen(options: SocketFileOptions): Promise<SocketFile> {
    checkPathLength(options.path)
    const listener = await retryTransient(options.clock, () => appear(options), options.signal)
    const file = new SocketFile(options, listener)
    LISTENING.add(file)
    const closed = await closedFolder(options.path, options).catch(() => undefined)
    if (closed)
      options.onEvent({
        kind: 'socket-unreachable',
        path: options.path,
        reason: `${closed.reason}. ${closed.remedy}`,
      })
    return file
  }

  get state(): State['kind'] {
    return this.#state.kind
  }

  /** Takes the path back from another process of root or of this user, to which it was left. */
  async reclaim(): Promise<void> {
    await this.#look
    if (this.#state.kind === 'closed') return
    this.#state.watch[Symbol.dispose]()
    this.#look = this.#lookAtFile(this.#state.listener, { yields: false })
    await this.#look
  }

  /** Accepts no more connections, and removes the file unless it belongs to another server. Accepted ones continue. */
  async close(): Promise<void> {
    const state = this.#state
    if (state.kind !== 'closed') state.watch[Symbol.dispose]()
    this.#state = { kind: 'closed' }
    LISTENING.delete(this)
    if (state.kind !== 'closed') closeListener(state.listener, this.#options.path)
    await this.#look
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #watched(listener: Listener, kind: 'listening' | 'superseded'): State {
    const { clock } = this.#options
    const watch = after(clock, WATCH_INTERVAL_MS, () => {
      this.#look = this.#lookAtFile(listener, { yields: true })
    })
    return { kind, listener, watch }
  }

  /** `yields`: whether the path is left to another process of root or of this user. */
  async #lookAtFile(listener: Listener, { yields }: { readonly yields: boolean }): Promise<void> {
    const { path } = this.#options
    let next = listener
    let event: SocketFileEvent | undefined
    let isSuperseded = this.#state.kind === 'superseded'
    try {
      const occupant = (await foreignFile(this.#options)) ?? (await occupantOf(this.#options))
      const isSame = isSameFile(occupant.file, listener.file)
      const isMoved = this.#isMoved(occupant)
      const isLeft = !isSame && !isMoved && occupant.kind === 'live' && isOurs(occupant, this.#options)
      if (yields && isLeft) {
        if (!isSuperseded) event = { kind: 'socket-superseded', path }
      } else if (!isSame) {
        next = await placeAgain(this.#options, listener, occupant)
        event =
          occupant.kind === 'live' && !isLeft && !isMoved
            ? { kind: 'socket-reclaimed', path, from: describeOccupant(occupant) }
            : { kind: 'socket-recreated', path }
      }
      isSuperseded = yields && isLeft
    } catch (error) {
      event = { kind: 'socket-lost', path, error }
    }
    this.#follow(listener, next, isSuperseded ? 'superseded' : 'listening')
    if (event && this.#state.kind !== 'closed') this.#options.onEvent(event)
  }

  /** Whether another socket of this process was renamed to this path: nobody took over. */
  #isMoved({ file }: Occupant): boolean {
    const others = [...LISTENING].filter(each => each.#options.path !== this.#options.path)
    return others.some(each => each.#state.kind !== 'closed' && isSameFile(file, each.#state.listener.file))
  }

  #follow(before: Listener, next: Listener, kind: 'listening' | 'superseded'): void {
    if (next !== before) before.server.close()
    if (this.#state.kind === 'closed') {
      if (next !== before) closeListener(next, this.#options.path)
      return
    }
    this.#state = this.#watched(next, kind)
  }
}

/** The file at the path, and the process that listens there, as far as that can be known. */
interface Occupant {
  readonly kind: PathOccupant
  readonly file: BigIntStats | undefined
  readonly listener: PeerCredentials | undefined
}

async function occupantOf({ path, readPeerCredentials }: SocketFileOptions): Promise<Occupant> {
  const file = await lstatIfPresent(path)
  const kind = await inspectPath(path)
  return { kind, file, listener: kind === 'live' ? await readListener(path, readPeerCredentials) : undefined }
}

/**
 * The file, other than a socket, that another user put in place of this process's socket: a link can lead to that user's
 * socket. A folder is left alone: nothing can be moved onto it.
 */
async function foreignFile({ path, owner }: SocketFileOptions): Promise<Occupant | undefined> {
  const file = await lstatIfPresent(path)
  if (!file || file.isSocket() || file.isDirectory()) return undefined
  const uid = Number(file.uid)
  return isTrustedUid(uid) || uid === owner ? undefined : { kind: 'live', file, listener: undefined }
}

/** Whether a server of root or of this user listens there, by SO_PEERCRED or else by the owner of the file. */
function isOurs({ file, listener }: Occupant, { owner }: SocketFileOptions): boolean {
  if (listener) return isTrustedUid(listener.uid)
  return file !== undefined && (isTrustedUid(Number(file.uid)) || Number(file.uid) === owner)
}

function isTrustedUid(uid: number): boolean {
  return uid === 0 || uid === process.geteuid?.()
}

function describeOccupant({ file, listener }: Occupant): string {
  return describePeer(listener) || ` (its file belongs to uid ${file?.uid})`
}

async function appear(options: SocketFileOptions): Promise<Listener> {
  const { path } = options
  await prepareDirectory(options)
  const occupant = await occupantOf(options)
  if (occupant.kind === 'live' && !options.takeover) {
    throw new LiveOwnerError(
      `Cannot listen on ${path}: another program${describePeer(occupant.listener)} serves this socket. Stop it, or choose another path`,
      { isTrusted: isOurs(occupant, options) },
    )
  }
  try {
    return await bindIn(options, occupant)
  } catch (error) {
    // Another process made a socket there just now: check again whose it is.
    if (systemErrorCode(error) === 'EEXIST') return await appear(options)
    throw await bindFailure(path, error)
  }
}

/** Takes the path back, even in a folder that is no longer safe: leaving it to others would be worse. */
async function placeAgain(options: SocketFileOptions, before: Listener, occupant: Occupant): Promise<Listener> {
  const { path, onEvent } = options
  try {
    await prepareDirectory(options)
  } catch (error) {
    const isUnsafe = error instanceof SdsServerError && error.code === 'unsafe-directory'
    if (!isUnsafe || !isSameFile(await lstatIfPresent(dirname(path)), before.folder)) throw error
    onEvent({ kind: 'socket-folder-unsafe', path, error })
  }
  try {
    return await bindIn(options, occupant)
  } catch (error) {
    throw await bindFailure(path, error)
  }
}

function bindIn(options: SocketFileOptions, { kind, file }: Occupant): Promise<Listener> {
  const { path, clock, onEvent } = options
  return bindAndPlace(options, kind === 'nothing' ? undefined : file, server => {
    const onFailure = failureReporter(clock, error => onEvent({ kind: 'accept-failed', path, error }))
    server.on('connection', socket => acceptTogether(server, socket, { ...options, onFailure }))
    server.on('error', onFailure)
  })
}
