/** The part of the configuration that changes while the agent runs: its identities and its sockets, as they are now. */
import { isDeepStrictEqual } from 'node:util'
import type { SecretManager } from '@livery/core'
import type { AccessConfig, SdsServer, SocketConfig } from '@livery/sds-server'
import { changedKeys } from '../config/changes.ts'
import type { ConfiguredIdentity } from '../config/identities.ts'
import type { Config } from '../config/load.ts'
import { childPath } from '../schema/config-tree.ts'
import { sdsSockets, shareOnDemand } from './sds-sockets.ts'

/** What a new configuration made different. */
export interface LiveChanges {
  readonly identitiesAdded: number
  readonly identitiesRemoved: number
  readonly socketsOpened: number
  /** New ones on whose path another process listens. The server tries them again. */
  readonly socketsWaiting: number
  readonly socketsClosed: number
  /** Those that continue with other rules. */
  readonly socketsChanged: number
  /** Other changes of shared sockets, which continue as they are, by the path of the key. */
  readonly needsRestart: readonly string[]
}

export interface LiveConfigOptions {
  readonly secrets: Pick<SecretManager, 'add' | 'remove'>
  /** Called with those that were opened, and with those that continue with other rules, as they are now. */
  readonly onServe: (sockets: readonly SocketConfig[]) => void
  /** Called when a socket could not be closed, or not be opened in the place of another. */
  readonly onError: (error: unknown, path: string) => void
}

type Sockets = Pick<SdsServer, 'listen' | 'listenAll' | 'prepareAccess' | 'review' | 'stopListening'>

/** Holds the configured identities from the start; `serve` has to be called before anything changes. */
export class LiveConfig {
  readonly #options: LiveConfigOptions
  #identities: ReadonlyMap<string, ConfiguredIdentity> = new Map()
  /** Removed identities that may have their own socket. */
  readonly #leaving = new Set<string>()
  #sds: Sockets | undefined
  /** Those that listen, by path. The own socket of a removed identity is among them until it is forgotten. */
  readonly #sockets: Map<string, SocketConfig>
  /** As at the start: limits of a socket do not change while it is open. */
  readonly #share: number

  constructor(config: Config, options: LiveConfigOptions) {
    this.#options = options
    this.#share = shareOnDemand(config)
    this.#sockets = byPath(sdsSockets(config, this.#share))
    this.#hold(byId(config))
  }

  sockets(): SocketConfig[] {
    return [...this.#sockets.values()]
  }

  /** `sds` listens on `sockets()`. */
  serve(sds: Sockets): void {
    this.#sds = sds
  }

  /**
   * Makes it so; what is the same in both is not touched. Rejects with an `SdsServerError` if a new socket cannot be
   * opened or new rules cannot be used, and then the previous configuration stays in force. One that should take the path of another is tried
   * again the next time.
   *
   * New sockets are opened first, which takes time and may fail. All the rest is one turn of the event loop: old rules
   * never meet new identities.
   */
  async apply(config: Config, signal: AbortSignal): Promise<LiveChanges> {
    const wanted = byPath(sdsSockets(config, this.#share))
    const opened = [...wanted.values()].filter(({ path }) => !this.#sockets.has(path))
    const { replaced, changed, needsRestart } = this.#compare(wanted, config)
    const changeAccess = this.#sds?.prepareAccess(changed.map(accessOf))

    let socketsWaiting = (await this.#sds?.listenAll(opened, signal))?.length ?? 0
    changeAccess?.()
    for (const socket of [...opened, ...changed]) this.#sockets.set(socket.path, socket)
    const identities = byId(config)
    const closed = this.sockets().filter(socket => !wanted.has(socket.path) && !isLeaving(socket, identities))
    for (const { path } of [...closed, ...replaced]) this.#stop(path)
    const counts = this.#hold(identities)
    // A caller of a new socket may already have asked in vain.
    if (counts.identitiesAdded > 0) this.#sds?.review()

    // Also the own socket of an identity that comes back, if that was forgotten while the new ones were opened.
    const late = [...wanted.values()].filter(({ path }) => !this.#sockets.has(path))
    for (const socket of late) socketsWaiting += await this.#open(socket, signal)
    const followed = late.filter(({ path }) => this.#sockets.has(path))
    this.#options.onServe([...opened, ...changed, ...followed])
    const socketsOpened = opened.length + followed.length - socketsWaiting
    const socketsClosed = closed.length + replaced.length
    return { ...counts, socketsOpened, socketsWaiting, socketsClosed, socketsChanged: changed.length, needsRestart }
  }

  /** An identity is no longer held: its own socket goes with it, unless it is configured. */
  onForgotten(name: string): void {
    if (!this.#leaving.delete(name)) return
    for (const socket of this.sockets())
      if (socket.identity === name && isLeaving(socket, this.#identities)) this.#stop(socket.path)
  }

  /** The part of `wanted` that differs from what listens at its path; `changed` as they are to continue. */
  #compare(wanted: ReadonlyMap<string, SocketConfig>, { sockets }: Config) {
    const replaced: SocketConfig[] = []
    const changed: SocketConfig[] = []
    const needsRestart: string[] = []
    for (const [path, socket] of wanted) {
      const present = this.#sockets.get(path)
      if (present === undefined || isDeepStrictEqual(socket, present)) continue
      if (socket.identity !== present.identity) {
        replaced.push(socket)
        continue
      }
      if (!isDeepStrictEqual(accessOf(socket), accessOf(present)))
        changed.push({ ...fixedOf(present), ...accessOf(socket) })
      if (isOwn(socket)) {
        if (!isDeepStrictEqual(fixedOf(socket), fixedOf(present))) replaced.push(socket)
        continue
      }
      const key = childPath(
        'sockets',
        sockets.findIndex(shared => shared.path === path),
      )
      needsRestart.push(...changedKeys(fixedOf(present), fixedOf(socket), key))
    }
    return { replaced, changed, needsRestart }
  }

  #hold(
    identities: ReadonlyMap<string, ConfiguredIdentity>,
  ): Pick<LiveChanges, 'identitiesAdded' | 'identitiesRemoved'> {
    const { secrets } = this.#options
    const before = this.#identities
    this.#identities = identities
    const removed = [...before.values()].filter(({ id }) => !identities.has(id))
    const added = [...identities.values()].filter(({ id }) => !before.has(id))
    const changed = [...identities.values()].filter(
      ({ id, tokenFile }) => before.has(id) && before.get(id)?.tokenFile !== tokenFile,
    )
    for (const { id } of added) this.#leaving.delete(id)
    for (const { id, socket } of removed) {
      if (socket !== undefined) this.#leaving.add(id)
      secrets.remove(id)
    }
    for (const { id, tokenFile } of [...added, ...changed])
      secrets.add(id, tokenFile === undefined ? {} : { tokenFile })
    return { identitiesAdded: added.length, identitiesRemoved: removed.length }
  }

  /** Not waited for: its streams may continue for the drain time. */
  #stop(path: string): void {
    this.#sockets.delete(path)
    this.#sds?.stopListening(path).catch((error: unknown) => this.#options.onError(error, path))
  }

  /** Resolves with how many wait for their path: 0 or 1. */
  async #open(socket: SocketConfig, signal: AbortSignal): Promise<number> {
    try {
      const waiting = await this.#sds?.listen(socket, signal)
      this.#sockets.set(socket.path, socket)
      return waiting?.length ?? 0
    } catch (error) {
      this.#options.onError(error, socket.path)
      return 0
    }
  }
}

function isLeaving({ identity }: SocketConfig, identities: ReadonlyMap<string, ConfiguredIdentity>): boolean {
  return identity !== undefined && !identities.has(identity)
}

function isOwn({ identity }: SocketConfig): boolean {
  return identity !== undefined
}

/** What of a shared socket changes while it is open. */
function accessOf({ mode: _, owner: _owner, group: _group, limits: _limits, ...access }: SocketConfig): AccessConfig {
  return access
}

function fixedOf({ allow: _, callers: _callers, onDemand: _onDemand, ...fixed }: SocketConfig): SocketConfig {
  return fixed
}

function byPath(sockets: readonly SocketConfig[]): Map<string, SocketConfig> {
  return new Map(sockets.map(socket => [socket.path, socket]))
}

function byId({ identities }: Config): Map<string, ConfiguredIdentity> {
  return new Map(identities.map(identity => [identity.id, identity]))
}
