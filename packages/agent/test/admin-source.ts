/** The admin endpoint's view of a secret manager that no program runs around. */
import type { IdentityEntry, SecretManager } from '@livery/core'
import { type Clock, isSpiffeId, type KeyGenerator, parseSpiffeId } from '@livery/core/plugin'
import type { AdminSource } from '../src/admin/admin-source.ts'
import { Diagnosis } from '../src/diagnosis/diagnosis.ts'
import type { AgentSource } from '../src/diagnosis/facts.ts'
import { Ledger } from '../src/observe/ledger.ts'
import { memoryLog } from './memory-log.ts'

interface AdminSourceParts {
  readonly secrets: SecretManager
  readonly clock: Clock
  readonly keyGenerator: KeyGenerator
}

/** Version 1.2.3, one socket that listens, metrics of one line, a ledger from now on. */
export function adminSource({ secrets, clock, keyGenerator }: AdminSourceParts): AdminSource {
  const ledger = new Ledger(name => secrets.holds(name))
  secrets.events.subscribe(report => ledger.record(report.name, report))
  return {
    version: '1.2.3',
    trustDomain: 'cluster.local',
    names: { default: 'default', root: 'ROOTCA', all: 'ALL' },
    clock,
    caPlugin: 'test',
    requestedTtlMs: 86_400_000,
    keyGenerator,
    config: () => ({ config: { ttl: '24h' } }),
    phase: () => 'serving',
    sockets: () => [{ path: '/run/a.sock', state: 'listening' }],
    identities: () => secrets.identities(),
    entries: () => secrets.entries(),
    entry: identity => secrets.entry(identity),
    bundles: () => secrets.bundles(),
    files: () => [],
    explain: name => ledger.entries(name),
    rotations: () => secrets.rotations(),
    changeRoot: (action, root) => secrets.changeRoot(action, root),
    renew: name => isSpiffeId(name) && secrets.renew(name),
    schedule: () => secrets.schedule(),
    plannedPerMinute: () => secrets.plannedPerMinute(),
    refusedConnections: () => Promise.resolve(0),
    store: () => undefined,
    memory: () => ({ rssBytes: 1e8, limitBytes: 1e9 }),
    onChange: listener => secrets.events.subscribe(({ name }) => listener(name)),
    metrics: { contentType: 'text/plain; version=0.0.4', text: () => Promise.resolve('up 1\n') },
    log: memoryLog(),
  }
}

/** An identity without a certificate, as the manager reports it. */
export function failingEntry(index: number, message = 'Cannot issue: the CA is away.'): IdentityEntry {
  return {
    identity: parseSpiffeId(`spiffe://cluster.local/ns/default/sa/sa-${index}`),
    state: 'failing',
    hold: 'pinned',
    secret: undefined,
    root: undefined,
    addedAt: 0,
    renewAt: undefined,
    receivedAt: undefined,
    lastsUntil: undefined,
    lastSuccessAt: undefined,
    lastFailure: { at: 0, code: 'unavailable', message },
    failingSince: 0,
    preflight: undefined,
  }
}

/** An agent that serves, with these identities and nothing else; `down`: since when the CA does not answer. */
export function heldSource(
  entries: readonly IdentityEntry[],
  clock: Clock,
  { downSince, ...fields }: Partial<AgentSource> & { readonly downSince?: number } = {},
): AgentSource & { diagnose(): Diagnosis } {
  const source: AgentSource = {
    clock,
    requestedTtlMs: 86_400_000,
    phase: () => 'serving',
    sockets: () => [],
    schedule: () => ({
      queued: { 'on-demand': 0, first: 0, renewal: 0, retry: 0 },
      inFlight: 0,
      window: 1,
      pause: undefined,
      downSince,
    }),
    store: () => undefined,
    memory: () => ({ rssBytes: 1e8, limitBytes: 1e9 }),
    rotations: () => [],
    bundles: () => [],
    ...fields,
  }
  const diagnose = () => {
    const diagnosis = new Diagnosis(source)
    for (const entry of entries) diagnosis.look(entry)
    return diagnosis
  }
  return { ...source, diagnose }
}
