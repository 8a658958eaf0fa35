/** Envoy's Secret Discovery Service over UNIX sockets: https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret */
import type { Clock, ReadPeerCredentials, WellKnownNames } from '@livery/core'
import type { SdsContext } from './sds-context.ts'
import type { SdsEvent, StreamInfo } from './sds-event.ts'
import { SdsServerError } from './sds-server-error.ts'
import { SdsSocket, type SocketConfig, type SocketStatus } from './sds-socket.ts'
import { deltaEncoder, sotwEncoder } from './secret-encoding.ts'
import type { SecretSource } from './secret-source.ts'

export interface SdsServerOptions {
  readonly sockets: readonly SocketConfig[]
  readonly source: SecretSource
  readonly clock: Clock
  /** Default: `default` and `ROOTCA`. */
  readonly names?: WellKnownNames
  /** Who is at the other end of a connection. Needed where a socket has `callers`; without it callers are not named. */
  readonly readPeerCredentials?: ReadPeerCredentials | undefined
  /** How long peers may go on when the server closes, milliseconds. Default: 5,000. */
  readonly drainMs?: number
  /** Takes the paths from a live server, as an upgrade does. Default: false. */
  readonly takeover?: boolean
  /** Beyond that many rejected responses a minute a stream is closed. Default: 60. */
  readonly nacksPerMinute?: number
  /** How long FetchSecrets waits for secrets that are not issued yet, milliseconds. Default: 5,000. */
  readonly fetchWaitMs?: number
  /** How long a connection without streams is kept, milliseconds. Default: 300,000. */
  readonly connectionIdleMs?: number
  /** Gives up binding, which may be tried for 15 s. */
  readonly signal?: AbortSignal
  /** Called with everything that happens, inside the server's own work: it must be quick and must not throw. */
  readonly observe?: (event: SdsEvent) => void
}

/** A server whose sockets listen. Closing it drains it. */
export class SdsServer implements AsyncDisposable {
  readonly #sockets: readonly SdsSocket[]
  readonly #drainMs: number
  #closing: Promise<void> | undefined

  constructor(sockets: readonly SdsSocket[], drainMs: number) {
    this.#sockets = sockets
    this.#drainMs = drainMs
  }

  /** Whether every socket can be connected to. */
  get isReady(): boolean {
    return this.#sockets.every(socket => socket.status().state === 'listening')
  }

  sockets(): readonly SocketStatus[] {
    return this.#sockets.map(socket => socket.status())
  }

  streams(): readonly StreamInfo[] {
    return this.#sockets.flatMap(socket => socket.streams())
  }

  /** Accepts nothing more, lets streams go on for the drain time, then ends them. Further calls wait for the first. */
  close(): Promise<void> {
    this.#closing ??= Promise.all(this.#sockets.map(socket => socket.close(this.#drainMs))).then(() => {})
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** Resolves when every socket listens; rejects with an `SdsServerError`, and then none does. */
export async function createSdsServer(options: SdsServerOptions): Promise<SdsServer> {
  const paths = new Set<string>()
  for (const { path } of options.sockets) {
    if (paths.has(path))
      throw new SdsServerError('invalid-config', `Cannot use ${path} for two sockets: give each its own path`)
    paths.add(path)
  }
  const context = createContext(options)
  const sockets = options.sockets.map(config => new SdsSocket(config, context))
  const server = new SdsServer(sockets, options.drainMs ?? 5_000)
  try {
    for (const socket of sockets) await socket.listen(options.signal)
  } catch (error) {
    await server.close()
    throw error
  }
  return server
}

function createContext(options: SdsServerOptions): SdsContext {
  const names = options.names ?? { default: 'default', root: 'ROOTCA' }
  if (names.default === names.root) {
    throw new SdsServerError(
      'invalid-config',
      `Cannot use ${JSON.stringify(names.root)} for names.default and names.root: they must differ`,
    )
  }
  // Nonces of an earlier process must not look like ours to a peer that outlived it.
  const epoch = options.clock.now().toString(36)
  let ids = 0
  let nonces = 0
  return {
    source: options.source,
    names,
    clock: options.clock,
    readPeerCredentials: options.readPeerCredentials,
    takeover: options.takeover ?? false,
    nacksPerMinute: options.nacksPerMinute ?? 60,
    fetchWaitMs: options.fetchWaitMs ?? 5_000,
    connectionIdleMs: options.connectionIdleMs ?? 300_000,
    sotw: sotwEncoder(),
    delta: deltaEncoder(),
    nextId: () => ++ids,
    nextNonce: () => `${epoch}-${(++nonces).toString(36)}`,
    observe: options.observe ?? (() => {}),
  }
}
