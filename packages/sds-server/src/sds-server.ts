/**
 * Envoy's Secret Discovery Service (https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret) and the SPIFFE
 * Workload API over UNIX sockets.
 */
import { Events, type FileSecretName, type ReadPeerCredentials } from '@livery/core'
import { parseFileName } from '@livery/core/file-secrets'
import type { Clock } from '@livery/core/plugin'
import type { CallerDirectory } from './access/caller-directory.ts'
import { RefusalAnswers } from './access/refusal-answers.ts'
import { ArrivalQueue } from './budget/arrival-queue.ts'
import { CallerAccounts, type CallerTotals, defaultProcessBytes } from './budget/caller-account.ts'
import { OpeningQueue } from './budget/opening-queue.ts'
import { ClosingQueue } from './budget/paced-closing.ts'
import { DEFAULT_LIMITS, DEFAULT_NAMES, DEFAULT_OPTIONS } from './defaults.ts'
import type { SdsEvent } from './events/sds-event.ts'
import type { ListedStream } from './grpc/socket-calls.ts'
import { TurnQueue } from './grpc/turn-queue.ts'
import { MessageComposer } from './protocol/discovery-message.ts'
import { parseResourceName, type WellKnownNames } from './protocol/resource-name.ts'
import { deltaEncoder, sotwEncoder } from './protocol/secret-encoding.ts'
import type { SecretSource } from './protocol/secret-source.ts'
import type { RefusedNames } from './protocol/sotw-stream.ts'
import type { SdsContext } from './sds-context.ts'
import { type AccessConfig, SdsSocket, type SocketConfig, type SocketStatus } from './sds-socket.ts'
import type { AcceptWaiting } from './socket/accept-connections.ts'
import { descriptorShortage, readDescriptorLimit } from './socket/descriptor-limit.ts'
import { SdsServerError } from './socket/sds-server-error.ts'
import { encodeBundles, encodeJwtBundles, encodeSvids, WorkloadEncoder } from './workload-api/workload-encoding.ts'

export interface SdsServerOptions {
  readonly sockets: readonly SocketConfig[]
  readonly source: SecretSource
  readonly clock: Clock
  /** Defaults: `default`, `ROOTCA` and `ALL`. */
  readonly names?: Partial<WellKnownNames>
  /** Reads the credentials of a connection's peer. Required if a socket has `callers`; without it events do not name callers. */
  readonly readPeerCredentials?: ReadPeerCredentials | undefined
  /** Identifies the callers of sockets that have `identify`. The server listens to its changes until it closes. */
  readonly callerDirectory?: CallerDirectory | undefined
  /** Accepts many connections at a time; without it each takes a turn of the event loop. */
  readonly acceptWaiting?: AcceptWaiting | undefined
  /** How long streams continue when the server closes, milliseconds. Default: 5,000. */
  readonly drainMs?: number
  /** Takes the paths from another live process, as an upgrade does. Default: false. */
  readonly takeover?: boolean
  /** More rejected responses than this in a minute close the stream. Default: 60. */
  readonly nacksPerMinute?: number
  /** The deadline of a connection's preface, and of a whole request, milliseconds. Default: 10,000. */
  readonly requestTimeoutMs?: number
  /**
   * Bytes that the callers of all sockets together can make the process hold. Default: half of the memory of the process,
   * at most 1 GiB.
   */
  readonly maxCallerBytes?: number
  /** How long FetchSecrets waits for secrets that are not issued yet, milliseconds. Default: 5,000. */
  readonly fetchWaitMs?: number
  /** How long a connection without streams is kept, milliseconds. Default: 300,000. */
  readonly connectionIdleMs?: number
  /** How often a PING checks that the peer is there, milliseconds. Default: 30,000. */
  readonly keepaliveMs?: number
  /** The connection is closed if the PING has no answer after this, milliseconds. Default: 10,000. */
  readonly keepaliveTimeoutMs?: number
  /** How SotW answers a request for names that are all refused or unknown. Default: `omit`. */
  readonly refusedNames?: RefusedNames
  /**
   * Names of secrets that others write, such as `sds://gateway`: each stands for `file-cert:CHAIN~KEY`, `file-root:FILE` or
   * `kubernetes://NAMESPACE/NAME`. Default: none.
   */
  readonly fileNames?: Readonly<Record<string, string>>
  /** The namespace of `kubernetes://NAME`. Default: such a name is refused. */
  readonly namespace?: string | undefined
  /** Gives up binding, which is tried for up to 15 s. */
  readonly signal?: AbortSignal
  /** Subscribe before the server is made to receive the events of its start. Default: new ones. */
  readonly events?: Events<SdsEvent>
}

/** A server whose sockets listen. Closing it drains it. */
export class SdsServer implements AsyncDisposable {
  /** Reports each event of its sockets, connections and streams. */
  readonly events: Events<SdsEvent>
  readonly #context: SdsContext
  readonly #drainMs: number
  readonly #takeover: boolean
  readonly #directory: Disposable | undefined
  readonly #sockets = new Map<string, SdsSocket>()
  /** Sockets whose file was removed and whose peers are draining. */
  readonly #leaving = new Map<SdsSocket, Promise<void>>()
  /** The highest `limits.connections` that was reported as unreachable. */
  #outOfReach = 0
  #closing: Promise<void> | undefined

  constructor(context: SdsContext, drainMs: number) {
    this.#context = context
    this.events = context.events
    this.#directory = context.callerDirectory?.changes.subscribe(subject => this.#recheck(subject))
    this.#drainMs = drainMs
    this.#takeover = context.takeover
  }

  /** All sockets, those that drain included. */
  sockets(): readonly SocketStatus[] {
    return this.#all().map(socket => socket.status())
  }

  /** Every open stream, socket by socket, each as it is when its turn comes. Those that open meanwhile may come too. */
  *streams(): Generator<ListedStream, void, undefined> {
    for (const socket of this.#all()) yield* socket.streams()
  }

  /** Every caller that has a connection, each as it is when its turn comes. */
  callers(): Iterable<CallerTotals> {
    return this.#context.accounts.connected()
  }

  /** Opens one socket: see {@link listenAll}. */
  listen(config: SocketConfig, signal?: AbortSignal): Promise<readonly Error[]> {
    return this.listenAll([config], signal)
  }

  /**
   * Opens these sockets, once the configuration of each has been checked. Resolves with an error (`live-owner`) for
   * each socket that waits because another process listens on its path; it is tried again every 5 s.
   *
   * Rejects with an `SdsServerError`, or with the reason of `signal`, which gives up binding; then none of them is
   * open. `invalid-config`: this server listens on the path. `closed`: the server closes, or `stopListening` was called
   * for the path meanwhile.
   */
  async listenAll(configs: readonly SocketConfig[], signal?: AbortSignal): Promise<readonly Error[]> {
    const added = this.#add(configs)
    try {
      for (const [, socket] of added) await socket.listen(signal)
    } catch (error) {
      await Promise.all([...added.keys()].map(path => this.stopListening(path)))
      throw error
    }
    this.#reportFewDescriptors()
    return [...added.values()].flatMap(({ failure }) => failure ?? [])
  }

  /**
   * Prepares other access rules for open sockets, unchanged ones included. Throws an `SdsServerError`
   * (`invalid-config`), and then nothing has changed. The returned function applies the rules at once. It closes each
   * connection whose caller is no longer let in, or was granted a name that it is no longer allowed. The others
   * continue, and get names that were refused to them and are allowed now.
   */
  prepareAccess(configs: readonly AccessConfig[]): () => void {
    const changes = configs.map(({ path, ...access }) => {
      const socket = this.#sockets.get(path)
      if (socket) return socket.prepareAccess(access)
      throw new SdsServerError('invalid-config', `Cannot change the rules of ${path}: this server has no socket there`)
    })
    return () => {
      for (const change of changes) change()
    }
  }

  /**
   * Asks again for names that were refused or unknown. Call it when the source knows more identities: the meaning of a name
   * such as `default` can depend on them.
   */
  review(): void {
    for (const socket of this.#sockets.values()) socket.review()
  }

  /**
   * Ends `takeover`, for a server that hands over itself: sockets that open later wait if another process listens. Its
   * successor may have opened the same ones already.
   */
  endTakeover(): void {
    this.#context.takeover = false
    this.#context.isHandover = true
  }

  /** Closes all sockets as {@link close} does, for a successor that serves them. Resolves when they have drained. */
  async handOver(): Promise<void> {
    await Promise.all([...this.#sockets.values()].map(socket => socket.close(this.#drainMs)))
  }

  /**
   * Takes the paths back from successors, processes of root or of this user, and undoes {@link endTakeover} and
   * {@link handOver}. Opens as many sockets as it can, and rejects with an `SdsServerError` if one cannot be opened
   * again.
   */
  async reclaim(): Promise<void> {
    this.#context.takeover = this.#takeover
    this.#context.isHandover = false
    const reclaimed = [...this.#sockets].map(([path, socket]) =>
      socket.isClosed ? this.#reopen(path, socket) : socket.reclaim(),
    )
    const failed = (await Promise.allSettled(reclaimed)).find(result => result.status === 'rejected')
    if (failed) throw failed.reason
  }

  /**
   * Removes the socket at `path` at once, and resolves when its peers have left; after `drainMs` (default: the drain time of
   * the server) the rest is sent away with UNAVAILABLE. Its rules end before this returns: until they leave, peers get names that were granted to
   * them and were known by then, and no others. Does nothing without a socket at `path`. The path can be listened on
   * again at once.
   */
  async stopListening(path: string, drainMs = this.#drainMs): Promise<void> {
    const socket = this.#sockets.get(path)
    if (!socket) return
    this.#sockets.delete(path)
    socket.stopGranting()
    const left = socket.close(drainMs).finally(() => this.#leaving.delete(socket))
    this.#leaving.set(socket, left)
    await left
  }

  /** Accepts nothing more, lets streams continue for the drain time, then ends them. Further calls wait for the first. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await Promise.all([this.handOver(), ...this.#leaving.values()])
    this.#context.refusalAnswers[Symbol.dispose]()
    this.#directory?.[Symbol.dispose]()
  }

  #recheck(subject: string): void {
    for (const socket of this.#all()) socket.recheck(subject)
  }

  #reportFewDescriptors(): void {
    const connections = Math.max(0, ...[...this.#sockets.values()].map(socket => socket.maxConnections))
    const shortage = descriptorShortage(readDescriptorLimit(), this.#sockets.size, connections)
    if (!shortage || connections <= this.#outOfReach) return
    this.#outOfReach = connections
    this.#context.events.emit({ kind: 'few-descriptors', ...shortage })
  }

  /** The peers of the socket that was closed continue to drain. */
  async #reopen(path: string, closed: SdsSocket): Promise<void> {
    const socket = new SdsSocket(closed.config, this.#context)
    this.#sockets.set(path, socket)
    this.#leaving.set(
      closed,
      closed.close(this.#drainMs).finally(() => this.#leaving.delete(closed)),
    )
    await socket.listen(undefined)
  }

  #all(): SdsSocket[] {
    return [...this.#sockets.values(), ...this.#leaving.keys()]
  }

  #add(configs: readonly SocketConfig[]): ReadonlyMap<string, SdsSocket> {
    const added = new Map<string, SdsSocket>()
    for (const config of configs) {
      const { path } = config
      if (this.#closing !== undefined)
        throw new SdsServerError('closed', `Cannot listen on ${path}: the server is closing`)
      if (this.#sockets.has(path) || added.has(path))
        throw new SdsServerError('invalid-config', `Cannot use ${path} for two sockets: give each its own path`)
      added.set(path, new SdsSocket(config, this.#context))
    }
    for (const [path, socket] of added) this.#sockets.set(path, socket)
    return added
  }
}

/**
 * Resolves when every socket listens, or waits because another process listens on its path. Rejects with an
 * `SdsServerError`, and then none is open: also where another process listens on every path.
 */
export async function createSdsServer(options: SdsServerOptions): Promise<SdsServer> {
  const server = new SdsServer(createContext(options), options.drainMs ?? DEFAULT_OPTIONS.drainMs)
  const [failure, ...others] = await server.listenAll(options.sockets, options.signal)
  if (!failure || others.length + 1 < options.sockets.length) return server
  await server.close()
  throw failure
}

function createContext({
  sockets: _,
  signal: _signal,
  fileNames = {},
  namespace,
  ...options
}: SdsServerOptions): SdsContext {
  const wellKnown = { ...DEFAULT_NAMES, ...options.names }
  if (new Set(Object.values(wellKnown)).size < Object.keys(wellKnown).length) {
    throw new SdsServerError('invalid-config', `Cannot use ${JSON.stringify(wellKnown)} for names: they must differ`)
  }
  const names = {
    ...wellKnown,
    files: readFileNames(fileNames, wellKnown),
    ...(namespace !== undefined && { namespace }),
  }
  let ids = 0
  return {
    ...DEFAULT_OPTIONS,
    ...options,
    names,
    isHandover: false,
    accounts: new CallerAccounts({ ...DEFAULT_LIMITS, bytes: options.maxCallerBytes ?? defaultProcessBytes() }),
    arrivals: new ArrivalQueue(),
    openings: new OpeningQueue(),
    closings: new ClosingQueue(),
    refusalAnswers: new RefusalAnswers(options.clock),
    sotw: sotwEncoder(),
    delta: deltaEncoder(),
    svids: new WorkloadEncoder(encodeSvids),
    bundles: new WorkloadEncoder(encodeBundles),
    jwtBundles: new WorkloadEncoder(encodeJwtBundles),
    pushes: new TurnQueue(options.clock),
    messages: new MessageComposer(options.clock.now().toString(36)),
    receipts: options.source.receipts,
    nextId: () => ++ids,
    events: options.events ?? new Events(),
  }
}

function readFileNames(
  fileNames: Readonly<Record<string, string>>,
  wellKnown: WellKnownNames,
): ReadonlyMap<string, FileSecretName> {
  const read = new Map<string, FileSecretName>()
  for (const [name, files] of Object.entries(fileNames)) {
    const refuse = (reason: string) =>
      new SdsServerError('invalid-config', `Cannot use the name ${JSON.stringify(name)} for files: ${reason}`)
    const secret = parseFileName(files)
    if (typeof secret === 'string') throw refuse(`${JSON.stringify(files)} ${secret}`)
    if (parseResourceName(name, wellKnown).kind !== 'unknown') throw refuse('it has another meaning')
    read.set(name, secret)
  }
  return read
}
