/** The module `secrets`: the SecretManager, the record of its events, and the identities that it holds. */
import { type FileStore, type RootSource, SecretManager } from '@livery/core'
import type { FileSecrets } from '@livery/core/file-secrets'
import type { CAClient } from '@livery/core/plugin'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import { describeCA, signsNow } from '../ca/create-ca-client.ts'
import { configuredSettle } from '../config/settle.ts'
import type { Basis } from '../life/basis.ts'
import { IdentityMetrics } from '../observe/identity-metrics.ts'
import { Ledger } from '../observe/ledger.ts'
import { scheduleMetrics } from '../observe/schedule-metrics.ts'
import { collectGarbage } from './collect-garbage.ts'
import { EventRecorder } from './event-recorder.ts'
import { configuredIdentities, IdentityUnion } from './identity-union.ts'
import { StormCollector } from './storm-collector.ts'

interface Needs extends Basis {
  readonly ca: CAClient
  readonly store?: FileStore | undefined
  readonly files?: FileSecrets | undefined
  readonly roots: readonly RootSource[]
  readonly crls: readonly RootSource[]
}

export const secrets = {
  open(made: Needs) {
    const { config, life, clock, log, metrics, events } = made
    let secrets: SecretManager | undefined
    // The ledger and its subscription come first: the manager reports the store's content while it is made.
    const ledger = new Ledger(name => secrets?.holds(name) ?? true)
    const recorder = new EventRecorder({ clock, ledger, log, metrics, life })
    events.subscribe(report => recorder.secret(report))
    const storms = life.parts.use(new StormCollector(clock, collectGarbage))
    events.subscribe(({ event }) => void (event.kind === 'issued' && storms.issued()))
    secrets = life.parts.use(createSecretManager(made))
    const identities = new IdentityMetrics(secrets, clock, signsNow(config.ca) ? describeCA(config.ca) : undefined)
    metrics.add(identities.rows(), turns => identities.look(turns))
    metrics.add(scheduleMetrics(secrets))
    const union = new IdentityUnion(secrets)
    union.replace('configuration', configuredIdentities(config))
    return { secrets, ledger, recorder, union }
  },
}

function createSecretManager({ config, ca, store, files, roots, crls, keyGenerator, vault, clock, events }: Needs) {
  const { revokesMissingRoots = false } = config.ca.plugin.capabilities
  const { ratio, jitter, survive, ackWait, overlap } = config.rotation
  const settleMs = configuredSettle(config, config.ca)
  return new SecretManager({
    ca,
    keyGenerator,
    vault,
    clock,
    events,
    revokesMissingRoots,
    ...(store && { store }),
    ...(files && { files }),
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    trustDomain: config.trustDomain,
    keyType: config.keyType,
    keyFormat: config.keyFormat,
    ttlSeconds: config.ttl / 1000,
    rotation: {
      ratio,
      jitter,
      ackWaitMs: ackWait,
      ...(survive !== undefined && { surviveMs: survive }),
      ...(settleMs !== undefined && { settleMs }),
      ...(overlap !== undefined && { overlapMs: overlap }),
    },
    rootSources: roots,
    crlSources: crls,
    rootsPollMs: config.trust.poll,
    retry: { minMs: config.retry.min, maxMs: config.retry.max },
    concurrency: config.concurrency,
    removalGraceMs: config.removal.grace,
    idle: { afterMs: config.idle.after, action: config.idle.action },
    maxIdentities: config.maxIdentities,
  })
}
