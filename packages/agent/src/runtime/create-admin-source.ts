/** The running agent, as the admin endpoint and the health endpoint read it. */
import { type Clock, type FileStore, isSpiffeId, type KeyGenerator, type SecretManager } from '@livery/core'
import type { AdminSource } from '../admin/admin-source.ts'
import type { LoadedConfig } from '../config/load.ts'
import { configJson } from '../config/print.ts'
import type { EventLog } from '../observe/event-log.ts'
import type { Ledger } from '../observe/ledger.ts'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { Metrics } from '../observe/metrics.ts'
import { memoryLimit } from '../observe/process-metrics.ts'
import { signsNow } from './create-ca-client.ts'
import type { Lifecycle } from './lifecycle.ts'
import { VERSION } from './version.ts'

/** The parts of the agent that the endpoints read. */
interface AdminSourceParts {
  readonly clock: Clock
  readonly scopes: LogScopes
  readonly log: EventLog
  readonly metrics: Metrics
  readonly ledger: Ledger
  readonly secrets: SecretManager
  readonly keyGenerator: KeyGenerator
  /** Absent if none is configured. */
  readonly store: Pick<FileStore, 'directory' | 'unwritten' | 'failure' | 'behindSince'> | undefined
  readonly lifecycle: Lifecycle
}

export function createAdminSource(loaded: LoadedConfig, parts: AdminSourceParts): AdminSource {
  const { config } = loaded
  const { clock, scopes, log, metrics, ledger, secrets, keyGenerator, store, lifecycle } = parts
  return {
    version: VERSION,
    trustDomain: config.trustDomain,
    names: config.names,
    fileNames: new Map(Object.entries(config.files.names)),
    clock,
    caPlugin: config.ca.plugin.name,
    requestedTtlMs: signsNow(config.ca) ? config.ttl : undefined,
    keyGenerator,
    config: () => lifecycle.serving?.reloader?.json() ?? configJson(loaded),
    phase: () => lifecycle.phase,
    // A socket that drains is closed, and no longer among those that are configured.
    sockets: () => (lifecycle.serving?.sds.sockets() ?? []).filter(({ state }) => state !== 'closed'),
    sds: () => lifecycle.serving?.sds,
    pods: () => lifecycle.serving?.pods?.status(),
    endpointProblems: () => lifecycle.serving?.endpoints.problems() ?? [],
    podOf: subject => lifecycle.serving?.pods?.nameOf(subject),
    identities: () => secrets.identities(),
    entries: () => secrets.entries(),
    entry: identity => secrets.entry(identity),
    bundles: () => secrets.bundles(),
    files: () => secrets.files?.entries() ?? [],
    rotations: () => secrets.rotations(),
    changeRoot: (action, fingerprint) => secrets.changeRoot(action, fingerprint),
    schedule: () => secrets.schedule(),
    plannedPerMinute: () => secrets.plannedPerMinute(),
    refusedConnections: () => metrics.sds.refusedConnections(),
    store: () => store,
    memory: () => ({ rssBytes: process.memoryUsage.rss(), limitBytes: memoryLimit() }),
    onChange: listener => secrets.events.subscribe(({ name }) => listener(name)),
    explain: name => ledger.entries(name),
    renew: name => isSpiffeId(name) && secrets.renew(name),
    metrics,
    log: scopes,
    tokenFile: config.admin.tokenFile,
    security: event => log.write(event),
  }
}
