/** The live part of the configuration: the current identities and sockets. */
import { isDeepStrictEqual } from 'node:util'
import type { Events } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { AccessConfig, SdsServer, SocketConfig } from '@livery/sds-server'
import { changedKeys } from '../config/changed-keys.ts'
import type { Config } from '../config/load.ts'
import { childPath } from '../schema/config-tree.ts'
import { configuredIdentities, type HeldIdentities, type IdentityUnion } from '../secrets/identity-union.ts'
import { sdsSockets, shareOnDemand } from './sds-sockets.ts'

/** The changes that a new configuration made. */
export interface LiveChanges {
  readonly identitiesAdded: number
  readonly identitiesRemoved: number
  readonly socketsOpened: number
  /** New sockets on whose paths other processes listen. The server retries them. */
  readonly socketsWaiting: number
  readonly socketsClosed: number
  /** Sockets that continue with other rules. */
  readonly socketsChanged: number
  /** Other changes of shared sockets, which take no effect yet, by the path of the key. */
  readonly needsRestart: readonly string[]
}

type Sockets = Pick<SdsServer, 'listen' | 'listenAll' | 'prepareAccess' | 'review' | 'stopListening'>

export interface LiveConfigOptions {
  /** Holds the configured identities from the start, and other sources' identities. */
  readonly union: Pick<IdentityUnion, 'replace' | 'isHeldBeside'>
  /** The configuration that is in force, for the parts that follow it in the same turn. */
  readonly reloads: Pick<Events<Config>, 'emit'>
  /** Listens on the sockets of the configuration. */
  readonly sds: Sockets
  /** Puts the operator's listed roots in force. Never rejects. */
  readonly useRoots: (config: Config) => Promise<void>
  /** Called with the opened sockets, and the ones that continue with other rules. */
  readonly onServe: (sockets: readonly SocketConfig[]) => void
  /** Called when a socket could not be closed, or could not be opened in place of another. */
  readonly onError: (error: unknown, path: string) => void
}

export class LiveConfig {
  readonly #options: LiveConfigOptions
  #identities: HeldIdentities
  /** Removed identities with their own socket. */
  readonly #leaving = new Set<string>()
  /** The listening sockets, by path. The own socket of a removed identity stays until that is forgotten. */
  readonly #sockets: Map<string, SocketConfig>
  /** Fixed at the start: limits of a socket do not change while it is open. */
  readonly #share: number

  constructor(config: Config, options: LiveConfigOptions) {
    this.#options = options
    this.#share = shareOnDemand(config)
    this.#sockets = byPath(sdsSockets(config, this.#share))
    this.#identities = configuredIdentities(config)
  }

  sockets(): SocketConfig[] {
    return [...this.#sockets.values()]
  }

  /**
   * Applies a configuration; identities and sockets that are the same in both are not touched. Rejects with an
   * `SdsServerError` if a new socket cannot be opened or new rules cannot be used; then the previous configuration
   * stays in force. A socket that should take the path of another is tried again the next time.
   *
   * New sockets are opened first, which takes time and can fail. All the rest happens in one turn of the event loop:
   * old rules never meet new identities.
   */
  async apply(config: Config, signal: AbortSignal): Promise<LiveChanges> {
    const { reloads, sds, onServe, useRoots } = this.#options
    const wanted = byPath(sdsSockets(config, this.#share))
    const opened = [...wanted.values()].filter(({ path }) => !this.#sockets.has(path))
    const { replaced, changed, needsRestart } = this.#compare(wanted, config)
    const changeAccess = sds.prepareAccess(changed.map(accessOf))

    let socketsWaiting = (await sds.listenAll(opened, signal)).length
    reloads.emit(config)
    changeAccess()
    for (const socket of [...opened, ...changed]) this.#sockets.set(socket.path, socket)
    const identities = configuredIdentities(config)
    const closed = this.sockets().filter(socket => !wanted.has(socket.path) && !this.#isLeaving(socket, identities))
    for (const { path } of closed) this.#stop(path)
    for (const { path, opensToOthers } of replaced) this.#stop(path, opensToOthers ? 0 : undefined)
    const counts = this.#hold(identities)
    // A caller of a new socket may already have asked in vain.
    if (counts.identitiesAdded > 0) sds.review()

    await useRoots(config)
    // Includes the own socket of an identity that comes back, if that was forgotten while the new ones were opened.
    const late = [...wanted.values()].filter(({ path }) => !this.#sockets.has(path))
    for (const socket of late) socketsWaiting += await this.#open(socket, signal)
    const followed = late.filter(({ path }) => this.#sockets.has(path))
    onServe([...opened, ...changed, ...followed])
    const socketsOpened = opened.length + followed.length - socketsWaiting
    const socketsClosed = closed.length + replaced.length
    return { ...counts, socketsOpened, socketsWaiting, socketsClosed, socketsChanged: changed.length, needsRestart }
  }

  /** An identity is no longer held: its own socket goes with it, unless it is configured. */
  onForgotten(name: string): void {
    if (!this.#leaving.delete(name)) return
    for (const socket of this.sockets())
      if (socket.identity === name && this.#isLeaving(socket, this.#identities)) this.#stop(socket.path)
  }

  /** The part of `wanted` that differs from the sockets at its paths; `changed` in the form in which they continue. */
  #compare(wanted: ReadonlyMap<string, SocketConfig>, { sockets }: Config) {
    const replaced: { readonly path: string; readonly opensToOthers: boolean }[] = []
    const changed: SocketConfig[] = []
    const needsRestart: string[] = []
    for (const [path, socket] of wanted) {
      const present = this.#sockets.get(path)
      if (present === undefined || isDeepStrictEqual(socket, present)) continue
      // A caller that may no longer open it must not get the next key on an open stream.
      const opensToOthers = !isDeepStrictEqual(placeOf(socket), placeOf(present))
      if (socket.identity !== present.identity) {
        replaced.push({ path, opensToOthers })
        continue
      }
      if (!isDeepStrictEqual(accessOf(socket), accessOf(present)))
        changed.push({ ...fixedOf(present), ...accessOf(socket) })
      if (isOwn(socket)) {
        if (!isDeepStrictEqual(fixedOf(socket), fixedOf(present))) replaced.push({ path, opensToOthers })
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

  #hold(identities: HeldIdentities): Pick<LiveChanges, 'identitiesAdded' | 'identitiesRemoved'> {
    const before = this.#identities
    this.#identities = identities
    for (const id of identities.keys()) this.#leaving.delete(id)
    const withOwnSocket = new Set(this.sockets().map(({ identity }) => identity))
    for (const id of before.keys()) if (withOwnSocket.has(id) && this.#isGone(id, identities)) this.#leaving.add(id)
    const { added, removed } = this.#options.union.replace('configuration', identities)
    return { identitiesAdded: added.length, identitiesRemoved: removed.length }
  }

  /** The own socket of an identity that no source names stays until that is forgotten. */
  #isLeaving({ identity }: SocketConfig, identities: HeldIdentities): boolean {
    return identity !== undefined && this.#isGone(identity, identities)
  }

  #isGone(id: SpiffeId, identities: HeldIdentities): boolean {
    return !identities.has(id) && !this.#options.union.isHeldBeside('configuration', id)
  }

  /** Nothing waits for it: its streams may continue for `drainMs`, by default the drain time. */
  #stop(path: string, drainMs?: number): void {
    this.#sockets.delete(path)
    this.#options.sds.stopListening(path, drainMs).catch((error: unknown) => this.#options.onError(error, path))
  }

  /** Resolves with the number of sockets that wait for their path: 0 or 1. */
  async #open(socket: SocketConfig, signal: AbortSignal): Promise<number> {
    try {
      const waiting = await this.#options.sds.listen(socket, signal)
      this.#sockets.set(socket.path, socket)
      return waiting.length
    } catch (error) {
      this.#options.onError(error, socket.path)
      return 0
    }
  }
}

function isOwn({ identity }: SocketConfig): boolean {
  return identity !== undefined
}

/** The part of a shared socket's configuration that changes while it is open. */
function accessOf(config: SocketConfig): AccessConfig {
  const { mode: _, owner: _owner, group: _group, limits: _limits, workloadApi: _api, ...access } = config
  return access
}

function fixedOf(socket: SocketConfig): SocketConfig {
  const { allow: _, callers: _callers, identify: _identify, onDemand: _onDemand, ...fixed } = socket
  return fixed
}

/** The users whom the file lets in. */
function placeOf({ mode, owner, group }: SocketConfig) {
  return { mode, owner, group }
}

function byPath(sockets: readonly SocketConfig[]): Map<string, SocketConfig> {
  return new Map(sockets.map(socket => [socket.path, socket]))
}
