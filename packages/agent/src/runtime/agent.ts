/** The agent: everything wired together, from the configuration to the open sockets and back down again. */
import {
  type CAClient,
  type Clock,
  Events,
  FileStore,
  type KeyGenerator,
  type KeyVault,
  SecretManager,
  type SecretReport,
  type Store,
  SystemClock,
  shareFolders,
} from '@livery/core'
import {
  acceptWaiting,
  createKeyVault,
  disableCoreDumps,
  nativeCertificateVerifier,
  readPeerCredentials,
} from '@livery/native-keygen'
import { createSdsServer, type SdsServer, type SocketConfig } from '@livery/sds-server'
import { AdminServer } from '../admin/admin-server.ts'
import type { Phase } from '../admin/readiness.ts'
import type { AdminSource } from '../admin/routes.ts'
import type { Config, LoadedConfig } from '../config/load.ts'
import { configJson } from '../config/print.ts'
import { EventLog, isSecurityEvent, securityLogger } from '../observe/event-log.ts'
import { FloodLimit } from '../observe/flood-limit.ts'
import { identityMetrics } from '../observe/identity-metrics.ts'
import { keyPoolMetrics } from '../observe/key-pool-metrics.ts'
import { Ledger, type LedgerEvent, toLedgerEvent } from '../observe/ledger.ts'
import type { Logger, LogSink } from '../observe/logger.ts'
import { Metrics } from '../observe/metrics.ts'
import { processMetrics } from '../observe/process-metrics.ts'
import { socketMetrics } from '../observe/sds-metrics.ts'
import { storeMetrics } from '../observe/store-metrics.ts'
import { formatListenAddress } from '../schema/values.ts'
import { chooseKeyGenerator } from './choose-key-generator.ts'
import { ConfigReloader } from './config-reloader.ts'
import { createCAClient, describeCA } from './create-ca-client.ts'
import { LiveConfig } from './live-config.ts'
import { describeSocket, serverOptions } from './sds-sockets.ts'
import { StormCollector } from './storm-collector.ts'
import { VERSION } from './version.ts'

export interface AgentOptions {
  /** Gives the start up. */
  readonly signal?: AbortSignal
  /**
   * Loads the configuration again, from where it came from. With it the file is watched. The signal is aborted when the
   * agent closes, which does not wait for it. Default: it stays as it is.
   */
  readonly load?: (signal: AbortSignal) => Promise<LoadedConfig>
}

/** A running agent. Disposing it drains: not ready, streams asked to end, sockets removed, then all the rest. */
export class Agent implements AsyncDisposable {
  readonly #loaded: LoadedConfig
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #keyGenerator: KeyGenerator
  readonly #vault: KeyVault
  readonly #eventLog: EventLog
  readonly #events = new Events<SecretReport>()
  readonly #ledger: Ledger
  readonly #secrets: SecretManager
  readonly #metrics: Metrics
  readonly #storms: StormCollector | undefined
  readonly #parts: AsyncDisposableStack
  #phase: Phase = 'starting'
  #sds: SdsServer | undefined
  #live: LiveConfig | undefined
  #reloader: ConfigReloader | undefined
  #closing: Promise<void> | undefined

  private constructor(
    loaded: LoadedConfig,
    sink: LogSink,
    made: {
      readonly clock: Clock
      readonly keyGenerator: KeyGenerator
      readonly vault: KeyVault
      readonly metrics: Metrics
      readonly ca: CAClient
      readonly store: FileStore | undefined
    },
    parts: AsyncDisposableStack,
  ) {
    this.#loaded = loaded
    this.#logger = sink.logger
    this.#clock = made.clock
    this.#keyGenerator = made.keyGenerator
    this.#vault = made.vault
    this.#parts = parts
    const flood = parts.use(
      new FloodLimit(made.clock, (event, suppressed, level) =>
        (isSecurityEvent(event) ? security : this.#logger)[level](
          { event, suppressed },
          `${suppressed} more lines of the event ${event} in 10 s`,
        ),
      ),
    )
    const security = securityLogger(this.#logger)
    this.#eventLog = new EventLog(this.#logger, flood, security)
    this.#metrics = made.metrics
    this.#storms = collectGarbage && parts.use(new StormCollector({ clock: made.clock, collect: collectGarbage }))
    let secrets: SecretManager | undefined
    // What a store had is reported while the manager is made.
    this.#ledger = new Ledger(name => secrets?.holds(name) ?? true)
    this.#subscribe()
    this.#secrets = secrets = parts.use(this.#createSecretManager(loaded.config, made.ca, made.store))
    this.#metrics.add(
      processMetrics({ version: VERSION, keyGenerator: made.keyGenerator.name, droppedLogLines: sink.dropped }),
    )
    this.#metrics.add(keyPoolMetrics(made.keyGenerator))
    this.#metrics.add(storeMetrics(made.store))
    this.#metrics.add(identityMetrics(secrets, made.clock))
  }

  /**
   * Resolves when every socket is bound, or waits for another process to leave its path; certificates may come later. Rejects with a `ConfigError`, or an `Error` that
   * says what could not be done; nothing is left open then.
   */
  static async start(loaded: LoadedConfig, sink: LogSink, options: AgentOptions = {}): Promise<Agent> {
    const { config, warnings } = loaded
    const { logger } = sink
    for (const warning of warnings) logger.warn(warning)
    shareFolders(config.sharedFolders)
    await using parts = new AsyncDisposableStack()
    keepOutOfCoreFiles(logger)
    const clock = parts.use(new SystemClock())
    warnOfUnsetClock(clock, logger)
    const keyGenerator = parts.use(chooseKeyGenerator(config, message => logger.warn(message)))
    const vault = chooseKeyVault(logger)
    const metrics = parts.use(new Metrics(clock))
    const ca = await createCAClient(loaded, { clock, logger, counters: metrics.plugins, vault }, parts)
    // Before the SecretManager, which fills it until it is closed.
    const store = await openStore(config, { clock, logger, vault }, parts)
    const agent = new Agent(loaded, sink, { clock, keyGenerator, vault, metrics, ca, store }, parts.move())
    try {
      await agent.#serve(options)
    } catch (error) {
      await agent[Symbol.asyncDispose]()
      throw error
    }
    return agent
  }

  /**
   * Reads the configuration again and puts in force what can change at run time: identities, their sockets, shared
   * sockets that come and go, the log level. Resolves when that is done, or the log says why it cannot be. Throws a
   * `TypeError` if the agent was started without `load`.
   */
  async reload(): Promise<void> {
    if (!this.#reloader) throw new TypeError('Cannot reload: the agent was started without a way to load')
    await this.#reloader.reload()
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#phase = 'draining'
    this.#closing ??= this.#parts.disposeAsync()
    return this.#closing
  }

  async #serve({ signal, load }: AgentOptions): Promise<void> {
    const { config } = this.#loaded
    const admin = await this.#listen('admin', config.admin.address)
    const health = config.health && (await this.#listen('health', config.health.address))
    this.#live = this.#createLiveConfig()
    const sockets = this.#live.sockets()
    const sds = this.#parts.use(
      await createSdsServer({
        sockets,
        source: this.#secrets,
        clock: this.#clock,
        ...(readPeerCredentials && { readPeerCredentials }),
        ...(acceptWaiting && { acceptWaiting }),
        ...serverOptions(config),
        ...(signal && { signal }),
        observe: event => {
          if (event.kind === 'stream-report' && 'name' in event.report)
            this.#record(event.report.ledgerName, toLedgerEvent(event.report, event.peer))
          this.#eventLog.sds(event)
          this.#metrics.sds.observe(event)
        },
      }),
    )
    this.#sds = sds
    this.#metrics.add(socketMetrics(sds))
    this.#live.serve(sds)
    if (load) this.#reloader = this.#parts.use(this.#createReloader(this.#live, load))
    this.#phase = 'serving'
    this.#warnOfOpenSockets(sockets)
    this.#logStart(sockets, admin, health)
  }

  /** A caller that can open a socket gets what it allows: a file mode that lets in everybody deserves a warning. */
  #warnOfOpenSockets(sockets: readonly SocketConfig[]): void {
    for (const { path, mode = 0, callers } of sockets) {
      if (callers || (mode & 0o006) === 0) continue
      this.#logger.warn(
        `socket ${path}: every user of this machine may open it (mode ${mode.toString(8)}) and gets what it allows; set a mode such as "0660", or callers`,
      )
    }
  }

  #logStart(sockets: readonly SocketConfig[], admin: AdminServer, health: AdminServer | undefined): void {
    const { config } = this.#loaded
    for (const socket of sockets.slice(0, SOCKET_LINES)) this.#logger.info(describeSocket(socket))
    if (sockets.length > SOCKET_LINES) this.#logger.info(`and ${sockets.length - SOCKET_LINES} more sockets`)
    const ca = describeCA(config.ca)
    const address = formatListenAddress(admin.address)
    this.#logger.info(
      {
        version: VERSION,
        trustDomain: config.trustDomain,
        identities: config.identities.length,
        sockets: sockets.length,
        admin: address,
        health: health && formatListenAddress(health.address),
        ca,
        keys: `${config.keyType}, ${this.#keyGenerator.name}`,
      },
      `livery ${VERSION} serves ${config.trustDomain}, identities: ${config.identities.length}; CA: ${ca}; keys: ${config.keyType}, ${this.#keyGenerator.name}; admin: ${'path' in admin.address ? address : `http://${address}`}`,
    )
  }

  async #listen(routes: 'admin' | 'health', address: AdminServer['address']): Promise<AdminServer> {
    const onError = (error: unknown): void =>
      this.#logger.error({ err: error }, `the ${routes} endpoint failed to answer`)
    return this.#parts.use(
      await AdminServer.listen({
        routes,
        address,
        source: this.#adminSource(),
        onError,
        file: this.#loaded.config.admin,
        readPeerCredentials,
      }),
    )
  }

  #adminSource(): AdminSource {
    const { config } = this.#loaded
    return {
      version: VERSION,
      trustDomain: config.trustDomain,
      names: config.names,
      clock: this.#clock,
      config: () => this.#reloader?.json() ?? configJson(this.#loaded),
      phase: () => this.#phase,
      // While it serves, one that is closed is a configured one no more.
      sockets: () => (this.#sds?.sockets() ?? []).filter(({ state }) => state !== 'closed'),
      entries: () => this.#secrets.entries(),
      entry: identity => this.#secrets.entry(identity),
      bundles: () => this.#secrets.bundles(),
      explain: name => this.#ledger.entries(name),
      metrics: this.#metrics,
      log: this.#logger,
      tokenFile: config.admin.tokenFile,
      security: (event, fields, message) => this.#eventLog.security(event, fields, message),
    }
  }

  #createSecretManager(config: Config, ca: CAClient, store: Store | undefined): SecretManager {
    const { batch } = config.ca.plugin.capabilities
    return new SecretManager({
      ca,
      ...(batch !== undefined && { batch }),
      ...(store && { store }),
      keyGenerator: this.#keyGenerator,
      ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
      vault: this.#vault,
      clock: this.#clock,
      trustDomain: config.trustDomain,
      keyType: config.keyType,
      keyFormat: config.keyFormat,
      ttlSeconds: config.ttl / 1000,
      rotation: { ratio: config.rotation.ratio, jitter: config.rotation.jitter, settleMs: config.rotation.settle },
      retry: { minMs: config.retry.min, maxMs: config.retry.max },
      concurrency: config.concurrency,
      removalGraceMs: config.removal.grace,
      idle: { afterMs: config.idle.after, action: config.idle.action },
      maxIdentities: config.maxIdentities,
      events: this.#events,
    })
  }

  /** Before the manager is made, which reports what the store had. */
  #subscribe(): void {
    this.#events.subscribe(({ name, event, time }) => this.#record(name, event, time))
    this.#events.subscribe(({ event }) => void (event.kind === 'issued' && this.#storms?.onIssued()))
    this.#events.subscribe(({ name, event }) => {
      if (event.kind === 'withdrawn' && event.reason !== 'expired') this.#live?.onForgotten(name)
    })
  }

  #record(name: string, event: LedgerEvent, time = this.#clock.now()): void {
    const entry = { time, event }
    this.#ledger.record(name, entry)
    // Closing forgets every identity, which is not news then.
    if (this.#phase !== 'draining' || event.kind !== 'withdrawn') this.#eventLog.ledger(name, entry)
    this.#metrics.record(name, entry)
  }

  #createLiveConfig(): LiveConfig {
    return new LiveConfig(this.#loaded.config, {
      secrets: this.#secrets,
      onServe: sockets => this.#warnOfOpenSockets(sockets),
      onError: (err, path) => this.#logger.error({ err }, `socket ${path} did not follow the configuration`),
    })
  }

  #createReloader(live: LiveConfig, load: (signal: AbortSignal) => Promise<LoadedConfig>): ConfigReloader {
    return new ConfigReloader({
      started: this.#loaded,
      load,
      live,
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics.reloads,
    })
  }
}

/** A machine without a battery starts in 1970. Core waits: what a CA issues is not valid yet then, and is not served. */
function warnOfUnsetClock(clock: Clock, logger: Logger): void {
  const now = clock.now()
  if (now < Date.UTC(2025, 0, 1))
    logger.warn(
      `the clock says ${new Date(now).toISOString()}: no certificate is valid until it is set, and none is served`,
    )
}

async function openStore(
  { store, trustDomain }: Config,
  { clock, logger, vault }: { readonly clock: Clock; readonly logger: Logger; readonly vault: KeyVault },
  parts: AsyncDisposableStack,
): Promise<FileStore | undefined> {
  if (!store) return undefined
  const { directory, bootstrap } = store
  const options = { directory, trustDomain, clock, vault, ...(bootstrap !== undefined && { bootstrap }) }
  const opened = parts.use(await FileStore.open(options))
  for (const warning of opened.warnings) logger.warn(warning)
  return opened
}

/** Absent unless Node runs with `--expose-gc`, as `bin/livery.js` starts it. */
const { gc } = globalThis
const collectGarbage = gc && (() => void gc({ type: 'major', execution: 'sync', flavor: 'last-resort' }))

function chooseKeyVault(logger: Logger): KeyVault {
  const { vault, reason } = createKeyVault()
  if (reason !== undefined) logger.warn(`${reason}.`)
  return vault
}

function keepOutOfCoreFiles(logger: Logger): void {
  try {
    disableCoreDumps?.()
  } catch (err) {
    logger.warn({ err }, 'a core file of this process would hold private keys: the kernel refused to turn them off')
  }
}

/** A node can have a socket for each of its thousand pods. */
const SOCKET_LINES = 10
