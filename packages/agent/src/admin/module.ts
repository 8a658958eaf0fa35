/** The module `admin`: the admin and the health endpoint, and the running agent as they read it. */
import type { FileStore, SecretManager } from '@livery/core'
import { isSpiffeId } from '@livery/core/plugin'
import { signsNow } from '../ca/create-ca-client.ts'
import { configJson } from '../config/print.ts'
import type { PodsStatus } from '../diagnosis/facts.ts'
import type { Basis } from '../life/basis.ts'
import { VERSION } from '../life/version.ts'
import type { Ledger } from '../observe/ledger.ts'
import { memoryLimit } from '../observe/process-metrics.ts'
import { AdminEndpoints, type LeavingAgent } from './admin-endpoints.ts'
import type { AdminSource } from './admin-source.ts'
import { nameConfig } from './request-refusal.ts'
import type { MakeRoutes } from './routes.ts'

interface Needs extends Basis {
  readonly ledger: Ledger
  readonly secrets: SecretManager
  readonly store?: Pick<FileStore, 'directory' | 'unwritten' | 'failure' | 'behindSince'> | undefined
  readonly pods?: { status(): PodsStatus; nameOf(subject: string): string | undefined } | undefined
  readonly predecessor?: LeavingAgent | undefined
  readonly pageRoutes?: MakeRoutes
}

export const admin = {
  open(made: Needs) {
    const { config, life, scopes, predecessor, pageRoutes } = made
    const source: AdminSource = {
      ...sourceOf(made),
      endpointProblems: () => (life.sds ? endpoints.problems() : []),
    }
    // Opened before the sockets, so that the endpoints answer while the sockets drain.
    const endpoints = life.parts.use(
      new AdminEndpoints(config, { source, makeRoutes: pageRoutes, logger: scopes.of('admin'), predecessor }),
    )
    endpoints.openPorts()
    return { endpoints, tried: life.bound.promise.then(() => endpoints.open()) }
  },
}

function sourceOf({
  config,
  lastRead,
  life,
  clock,
  scopes,
  log,
  metrics,
  ledger,
  secrets,
  keyGenerator,
  store,
  pods,
}: Needs): AdminSource {
  return {
    version: VERSION,
    trustDomain: config.trustDomain,
    names: config.names,
    fileNames: new Map(Object.entries(config.files.names)),
    clock,
    caPlugin: config.ca.plugin.name,
    requestedTtlMs: signsNow(config.ca) ? config.ttl : undefined,
    keyGenerator,
    configFile: lastRead.loaded.file === undefined ? undefined : nameConfig(lastRead.loaded.file),
    config() {
      const { loaded, needsRestart } = lastRead
      return { ...configJson(loaded), ...(needsRestart && { needsRestart }) }
    },
    phase: () => life.phase,
    // A socket that drains is closed, and no longer among those that are configured.
    sockets: () => (life.sds?.sockets() ?? []).filter(({ state }) => state !== 'closed'),
    sds: () => life.sds,
    pods: () => (life.sds ? pods?.status() : undefined),
    podOf: subject => pods?.nameOf(subject),
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
