/** A server on sockets in a temporary directory, for one test. */
import { join } from 'node:path'
import { Events } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { TemporaryFolder } from '@livery/test-support'
import type { SdsEvent, StreamInfo } from '../src/events/sds-event.ts'
import type { StreamReport, SubscribedName } from '../src/protocol/discovery-protocol.ts'
import { createSdsServer, type SdsServer, type SdsServerOptions } from '../src/sds-server.ts'
import type { SocketConfig } from '../src/sds-socket.ts'
import { MemorySource } from './memory-source.ts'
import { SdsClient } from './sds-client.ts'

export const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
export const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'
/** A name that the source knows, but has no secret for. */
export const NEVER_ISSUED: SpiffeId = 'spiffe://cluster.local/ns/default/sa/never'
/** No test server allows it. */
export const OTHER: SpiffeId = 'spiffe://cluster.local/ns/other/sa/db'

/** A report that is about a secret with a name. */
type NamedReport = Extract<StreamReport, { readonly name: string }>

export interface RunningServer extends AsyncDisposable {
  readonly source: MemorySource
  readonly server: SdsServer
  readonly path: string
  readonly events: SdsEvent[]
  /** The reports of each secret, oldest first. */
  readonly reports: ReadonlyMap<string, readonly NamedReport[]>
  connect(): SdsClient
  /** The open streams with their names, as they are now. */
  streams(): readonly (StreamInfo & { readonly subscribed: readonly SubscribedName[] })[]
  /** Resolves with the first event of a kind that matches, past or future. */
  event<Kind extends SdsEvent['kind']>(
    kind: Kind,
    matches?: (event: Extract<SdsEvent, { kind: Kind }>) => boolean,
  ): Promise<Extract<SdsEvent, { kind: Kind }>>
}

/** Default: a shared socket on which everything in `ns/default` is allowed, and `WEB` and `API` have certificates. */
export async function startServer(
  socket: Partial<SocketConfig> = {},
  options: Partial<SdsServerOptions> & { readonly source?: MemorySource } = {},
): Promise<RunningServer> {
  const directory = new TemporaryFolder()
  const path = join(directory.path, 'sds.sock')
  const source = options.source ?? (await MemorySource.create(WEB, API))
  const allow = socket.identity ? {} : { allow: ['spiffe://cluster.local/ns/default/sa/*'] }
  const events: SdsEvent[] = []
  const reports = new Map<string, NamedReport[]>()
  const emitter = new Events<SdsEvent>()
  emitter.subscribe(event => {
    events.push(event)
    if (event.kind === 'stream-report' && 'name' in event.report)
      reports.set(event.report.ledgerName, [...(reports.get(event.report.ledgerName) ?? []), event.report])
  })
  const server = await createSdsServer({
    clock: source.clock,
    drainMs: 0,
    ...options,
    source,
    sockets: [{ path, ...allow, ...socket }],
    events: emitter,
  })
  const clients: SdsClient[] = []
  return {
    source,
    server,
    path,
    events,
    reports,
    connect() {
      const client = new SdsClient(path)
      clients.push(client)
      return client
    },
    streams() {
      return [...server.streams()].map(stream => ({ ...stream.info(), subscribed: [...stream.subscribed()] }))
    },
    event(kind, matches = () => true) {
      type Wanted = Extract<SdsEvent, { kind: typeof kind }>
      const isWanted = (event: SdsEvent): event is Wanted => event.kind === kind && matches(event as Wanted)
      const past = events.find(isWanted)
      if (past) return Promise.resolve(past)
      return new Promise(resolve => {
        const subscription = emitter.subscribe(event => {
          if (!isWanted(event)) return
          subscription[Symbol.dispose]()
          resolve(event)
        })
      })
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client[Symbol.dispose]()
      const closed = server.close()
      // The server's deadlines are on the fake clock.
      while (!(await Promise.race([closed.then(() => true), source.clock.advance(1_000).then(() => false)])));
      directory[Symbol.dispose]()
    },
  }
}

/** Whether the socket at `path` can be connected to. */
export function isListening(server: SdsServer, path: string): boolean {
  return server.sockets().some(socket => socket.path === path && socket.state === 'listening')
}
