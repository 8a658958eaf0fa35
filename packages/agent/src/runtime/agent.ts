/** The agent: makes every part in the order in which the parts need each other, and disposes them in reverse. */
import {
  type Clock,
  Events,
  isSpiffeId,
  type SecretManager,
  type SecretReport,
  SystemClock,
  shareFolders,
  untilAborted,
} from '@livery/core'
import { acceptWaiting, readPeerCredentials } from '@livery/native-keygen'
import { createSdsServer, type SdsEvent } from '@livery/sds-server'
import type { Config, LoadedConfig } from '../config/load.ts'
import type { PodTokens } from '../kubernetes/pod-tokens.ts'
import { EventLog } from '../observe/event-log.ts'
import { IdentityMetrics } from '../observe/identity-metrics.ts'
import { Ledger } from '../observe/ledger.ts'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { LogSink } from '../observe/logger.ts'
import { Metrics } from '../observe/metrics.ts'
import { outputMetrics } from '../observe/output-metrics.ts'
import { processMetrics } from '../observe/process-metrics.ts'
import { scheduleMetrics } from '../observe/schedule-metrics.ts'
import { socketMetrics } from '../observe/sds-metrics.ts'
import { storeMetrics } from '../observe/store-metrics.ts'
import { Outputs } from '../output/outputs.ts'
import { Predecessor } from '../takeover/predecessor.ts'
import { RootSources } from '../trust/root-sources.ts'
import { AdminEndpoints } from './admin-endpoints.ts'
import { chooseKeyGenerator } from './choose-key-generator.ts'
import { ConfigReloader } from './config-reloader.ts'
import { createAdminSource } from './create-admin-source.ts'
import { createCAClient, describeCA, pluginLog, signsNow } from './create-ca-client.ts'
import { createSecretManager } from './create-secret-manager.ts'
import { EventRecorder } from './event-recorder.ts'
import { IdentityUnion } from './identity-union.ts'
import { Lifecycle, type Succession } from './lifecycle.ts'
import { configuredIdentities, LiveConfig } from './live-config.ts'
import { openFileSecrets } from './open-file-secrets.ts'
import { openStore } from './open-store.ts'
import { ownStore } from './own-store.ts'
import {
  chooseKeyVault,
  collectGarbage,
  keepOutOfCoreFiles,
  warnOfLessStrictPaths,
  warnOfUnsetClock,
} from './process-setup.ts'
import { sdsSockets, serverOptions, shareOnDemand } from './sds-sockets.ts'
import { logStart, warnOfOpenSockets } from './start-report.ts'
import { StormCollector } from './storm-collector.ts'
import { VERSION } from './version.ts'
import { withWellKnownFiles } from './well-known-files.ts'

export interface AgentOptions {
  /** Aborts the start. */
  readonly signal?: AbortSignal
  /**
   * Loads the configuration again, from where it came from. With it the file is watched. The signal is aborted when the
   * agent closes, which does not wait for it. Default: the configuration stays as it is.
   */
  readonly load?: (signal: AbortSignal) => Promise<LoadedConfig>
  /**
   * Stays when another agent has taken over, until it is disposed: for a process that would be started again when it ends.
   * Default: false.
   */
  readonly staysWhenSucceeded?: boolean
}

/** A running agent. Disposing it drains: not ready, streams asked to end, sockets removed, then all the rest. */
export interface Agent extends AsyncDisposable {
  /** Resolves when the agent is to be disposed because of another: see `sds.takeover` in the configuration. */
  readonly succession: Promise<Succession>
  /**
   * Reads the configuration again and puts in force what can change at run time: identities, their sockets, shared
   * sockets that come and go, the log level. Resolves when that is done, or the log says why it cannot be. Throws a
   * `TypeError` if the agent was started without `load`.
   */
  reload(): Promise<void>
}

/**
 * Resolves when every socket is bound, or waits for another process to leave its path; certificates may come later.
 * Rejects with a `ConfigError`, or an `Error` that says what could not be done; nothing is left open then.
 */
export async function startAgent(loaded: LoadedConfig, sink: LogSink, options: AgentOptions = {}): Promise<Agent> {
  const lifecycle = new Lifecycle()
  try {
    const basis = await openBasis(loaded, sink, { lifecycle, isKeptRunning: options.staysWhenSucceeded ?? false })
    await serve(loaded, holdSecrets(loaded, basis), options)
  } catch (error) {
    await lifecycle[Symbol.asyncDispose]()
    throw error
  }
  return {
    succession: lifecycle.succession.promise,
    async reload() {
      const { reloader } = lifecycle.serving ?? {}
      if (!reloader) throw new TypeError('Cannot reload: the agent was started without a way to load')
      await reloader.reload()
    },
    [Symbol.asyncDispose]: () => lifecycle[Symbol.asyncDispose](),
  }
}

type Basis = Awaited<ReturnType<typeof openBasis>>
type Holding = ReturnType<typeof holdSecrets>

/** The parts that hold no secret yet: the process, the clock, log and metrics, keys, the CA, the store. */
async function openBasis(
  loaded: LoadedConfig,
  { logger, scopes, dropped }: LogSink,
  life: { readonly lifecycle: Lifecycle; readonly isKeptRunning: boolean },
) {
  const { config, warnings } = loaded
  const { lifecycle } = life
  const { parts } = lifecycle
  for (const warning of warnings) scopes.of('config').warn(warning)
  shareFolders(config.sharedFolders)
  keepOutOfCoreFiles(logger)
  const clock = parts.use(new SystemClock())
  warnOfUnsetClock(clock, logger)
  const log = parts.use(new EventLog(scopes, clock))
  const metrics = parts.use(new Metrics())
  const keyGenerator = chooseKeyGenerator(config, message => logger.warn(message))
  const vault = chooseKeyVault(logger)
  warnOfLessStrictPaths(logger)
  const podTokens = await openPodTokens(config, clock, scopes)
  const pluginParts = {
    clock,
    logger: scopes.of('plugin'),
    counters: metrics.plugins,
    vault,
    workloadTokens: podTokens,
    rootsPollMs: config.trust.poll,
  }
  const ca = await withWellKnownFiles(await createCAClient(loaded, pluginParts, parts), config, pluginParts, parts)
  const predecessor = await findPredecessor(config, scopes)
  if (predecessor) parts.use(predecessor)
  await predecessor?.ask('store')
  // Before the SecretManager, which fills it until it is closed.
  const store = parts.use(await openStore(config, { clock, logger: scopes.of('store'), vault }))
  predecessor?.refused.throwIfAborted()
  const takeover = { clock, logger: scopes.of('takeover'), isSuccessor: predecessor !== undefined, ...life }
  parts.use(await ownStore(store, config, takeover))
  const rootSources = parts.use(new RootSources({ clock, logger: scopes.of('trust') }))
  const roots = await rootSources.of(config)
  const crls = await rootSources.crls(config)
  metrics.add(processMetrics({ version: VERSION, keyGenerator: keyGenerator.name, droppedLogLines: dropped }))
  metrics.add(storeMetrics(store))
  return {
    lifecycle,
    predecessor,
    clock,
    logger,
    scopes,
    log,
    metrics,
    keyGenerator,
    vault,
    ca,
    podTokens,
    store,
    rootSources,
    roots,
    crls,
  }
}

/** Of the pods that are listed later. */
async function openPodTokens({ kubernetes }: Config, clock: Clock, scopes: LogScopes): Promise<PodTokens | undefined> {
  if (!kubernetes) return undefined
  const { PodTokens } = await import('../kubernetes/pod-tokens.ts')
  return new PodTokens({ clock, log: pluginLog(scopes.of('kubernetes'), 'kubernetes') })
}

/** The agent that owns the store, if this one is to take over from it. */
async function findPredecessor({ sds, store }: Config, scopes: LogScopes): Promise<Predecessor | undefined> {
  if (!sds.takeover || !store) return undefined
  const predecessor = await Predecessor.find(store.directory)
  if (predecessor) scopes.of('takeover').info(`taking over from the agent that owns ${store.directory}`)
  return predecessor
}

/** The parts that hold secrets and record what happens to them. No identity is held yet. */
function holdSecrets({ config }: LoadedConfig, basis: Basis) {
  const { lifecycle, clock, log, metrics, podTokens } = basis
  const events = new Events<SecretReport>()
  let secrets: SecretManager | undefined
  // The ledger and its subscription come first: the manager reports while it is made what the store had.
  const ledger = new Ledger(name => secrets?.holds(name) ?? true)
  const recorder = new EventRecorder({ clock, ledger, log, metrics, lifecycle })
  events.subscribe(report => recorder.secret(report))
  const storms = lifecycle.parts.use(new StormCollector({ clock, collect: collectGarbage }))
  events.subscribe(({ event }) => void (event.kind === 'issued' && storms.onIssued()))
  if (podTokens)
    events.subscribe(({ name, event }) => {
      if (event.kind === 'ca-error' && event.code === 'unauthenticated' && isSpiffeId(name)) podTokens.refused(name)
    })
  const files = lifecycle.parts.use(openFileSecrets(config, { ...basis, logger: basis.scopes.of('files'), events }))
  secrets = lifecycle.parts.use(createSecretManager(config, { ...basis, events, files }))
  const identities = new IdentityMetrics(secrets, clock, signsNow(config.ca) ? describeCA(config.ca) : undefined)
  metrics.add(identities.rows(), turns => identities.look(turns))
  metrics.add(scheduleMetrics(secrets))
  return { ...basis, files, secrets, ledger, recorder }
}

/** Begins to list the pods of this node, if the configuration asks for that. */
async function listPods(config: Config, { clock, log, metrics, lifecycle, podTokens: tokens }: Holding) {
  if (!config.kubernetes) return undefined
  const [{ FollowedPods }, { identifyPods }] = await Promise.all([
    import('./followed-pods.ts'),
    import('./identify-pods.ts'),
  ])
  const pods = lifecycle.parts.use(new FollowedPods(config.kubernetes, config, { clock, log, metrics, tokens }))
  const callers = identifyPods(config, pods.table)
  if (callers) lifecycle.parts.use(callers)
  return { pods, callers }
}

/** The parts that others reach: the sockets and the admin endpoint, then what changes both at run time. */
async function serve(loaded: LoadedConfig, holding: Holding, { signal, load }: AgentOptions): Promise<void> {
  const { config } = loaded
  const {
    lifecycle,
    predecessor,
    clock,
    logger,
    scopes,
    log,
    metrics,
    files,
    secrets,
    recorder,
    keyGenerator,
    rootSources,
  } = holding
  const stop = AbortSignal.any([signal, predecessor?.refused].filter(each => each !== undefined))
  const source = createAdminSource(loaded, holding)
  // Before the sockets, so that they answer while those drain.
  const endpoints = lifecycle.parts.use(new AdminEndpoints(config, { source, logger: scopes.of('admin'), predecessor }))
  endpoints.openPorts()
  const union = new IdentityUnion(secrets)
  union.replace('configuration', configuredIdentities(config))
  const { pods, callers } = (await listPods(config, holding)) ?? {}
  pods?.table.changes.subscribe(({ kind, pod: { identity } }) => {
    if (kind === 'added' && identity) secrets.retry(identity)
  })
  // Until then the previous agent serves.
  if (predecessor) await untilAborted(secrets.restored(), stop)
  const sockets = sdsSockets(config, shareOnDemand(config))
  const events = new Events<SdsEvent>()
  events.subscribe(event => recorder.sds(event))
  const sds = lifecycle.parts.use(
    await createSdsServer({
      sockets,
      source: secrets,
      clock,
      ...(readPeerCredentials && { readPeerCredentials }),
      callerDirectory: callers,
      ...(acceptWaiting && { acceptWaiting }),
      ...serverOptions(config),
      signal: stop,
      events,
    }),
  )
  metrics.add(socketMetrics(sds))
  const tried = endpoints.open()
  const outputs = lifecycle.parts.use(new Outputs({ secrets, clock, logger: scopes.of('output') }))
  outputs.follow(config.identities)
  metrics.add(outputMetrics(outputs))
  const live = new LiveConfig(config, {
    union,
    files,
    outputs,
    sds,
    useRoots: async next => {
      secrets.useCrlSources(await rootSources.crls(next))
      await secrets.useRootSources(await rootSources.of(next))
      sds.review()
    },
    onServe: opened => warnOfOpenSockets(opened, scopes.of('sds')),
    onError: (err, path) => scopes.of('config').error({ err }, `socket ${path} did not follow the configuration`),
  })
  secrets.events.subscribe(({ name, event }) => {
    if (event.kind === 'withdrawn' && event.reason !== 'expired') live.onForgotten(name)
  })
  const reloader =
    load &&
    lifecycle.parts.use(
      new ConfigReloader({
        started: loaded,
        load,
        live,
        clock,
        scopes,
        log,
        metrics: metrics.reloads,
        onReloaded: () => secrets.retryFailing(),
      }),
    )
  pods?.follow(union, sds)
  if (predecessor) await untilAborted(pods?.listed() ?? Promise.resolve(), stop)
  lifecycle.serve({ endpoints, sds, reloader, outputs, pods })
  await predecessor?.ask('serving')
  warnOfOpenSockets(sockets, scopes.of('sds'))
  await tried
  logStart(config, endpoints.addresses, { sockets, keyGenerator: keyGenerator.name }, logger)
}
