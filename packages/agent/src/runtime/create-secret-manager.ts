/** Creates the SecretManager of the configuration. */
import {
  type CAClient,
  type Clock,
  type Events,
  type FileSecrets,
  type KeyGenerator,
  type KeyVault,
  type RootSource,
  SecretManager,
  type SecretReport,
  type Store,
} from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import { configuredSettle } from '../config/settle.ts'

/** The parts of the agent that the manager works with. */
interface SecretManagerParts {
  readonly ca: CAClient
  readonly store: Store | undefined
  readonly files: FileSecrets
  /** Of what the operator lists. */
  readonly roots: readonly RootSource[]
  readonly crls: readonly RootSource[]
  readonly keyGenerator: KeyGenerator
  readonly vault: KeyVault
  readonly clock: Clock
  readonly events: Events<SecretReport>
}

export function createSecretManager(
  config: Config,
  { store, roots, crls, ...parts }: SecretManagerParts,
): SecretManager {
  const { revokesMissingRoots = false } = config.ca.plugin.capabilities
  const { ratio, jitter, ackWait, overlap } = config.rotation
  const settleMs = configuredSettle(config, config.ca)
  return new SecretManager({
    ...parts,
    revokesMissingRoots,
    ...(store && { store }),
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    trustDomain: config.trustDomain,
    keyType: config.keyType,
    keyFormat: config.keyFormat,
    ttlSeconds: config.ttl / 1000,
    rotation: {
      ratio,
      jitter,
      ackWaitMs: ackWait,
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
