/** The options of a SecretManager, and the default of each that can be left out. */

import type { CAClient } from './contract/ca-client.ts'
import type { CACapabilities } from './contract/ca-plugin.ts'
import type { CertificateVerifier } from './contract/certificate-verifier.ts'
import type { Events } from './contract/events.ts'
import type { KeyGenerator, KeyType, PrivateKeyFormat } from './contract/key-generator.ts'
import { type KeyVault, plainKeyVault } from './contract/key-vault.ts'
import type { RootSource } from './contract/root-source.ts'
import type { SecretReport } from './contract/secret-event.ts'
import type { Store } from './contract/store.ts'
import type { RotationPolicy } from './decide/renewal-time.ts'
import type { FetchOptions } from './fetch/fetch.ts'
import type { FileSecrets } from './file-secrets/file-secrets.ts'
import type { IdleAction } from './state/unused.ts'
import { PendingRequestsInMemory } from './store/pending-requests.ts'
import type { RetryPolicy } from './time/backoff.ts'
import type { Clock } from './time/clock.ts'
import { defaultOverlapMs, defaultSettleMs, OWN_SETTLE_MS, type RootTimes } from './trust/settle-time.ts'
import { nodeCertificateVerifier } from './x509/node-chain-reader.ts'

export interface SecretManagerOptions {
  readonly ca: CAClient
  /** Whether a root that is missing from the CA's list is revoked: `capabilities.revokesMissingRoots` of the plugin. Default: `false`. */
  readonly revokesMissingRoots?: boolean
  readonly keyGenerator: KeyGenerator
  readonly clock: Clock
  readonly trustDomain: string
  /** Roots beside the CA's, for this trust domain and others. Default: none. */
  readonly rootSources?: readonly RootSource[]
  /** Revocation lists (PEM), at most one source for each trust domain, served beside its roots. Default: none. */
  readonly crlSources?: readonly RootSource[]
  /** Keeps certificates, roots and pending requests for the next process. Its creator closes it. Default: nothing is kept. */
  readonly store?: Store
  /** The secrets in files that may be named. Its creator closes it. Default: none may be. */
  readonly files?: FileSecrets
  /** Returns a number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number
  /** Default: on node:crypto. */
  readonly verifier?: CertificateVerifier
  /** Seals the private keys in memory. Default: one plain buffer for each. */
  readonly vault?: KeyVault
  /** Default: `ecdsa-p256`. */
  readonly keyType?: KeyType
  /** Default: `pkcs8`. */
  readonly keyFormat?: PrivateKeyFormat
  /** The lifetime to ask for, seconds. Default: 86,400. */
  readonly ttlSeconds?: number
  readonly rotation?: {
    /** Fraction of the remaining lifetime after which to renew. Default: 0.5. */
    readonly ratio?: number
    /** Half-width of the renewal window, as a fraction of the lifetime. Default: 0.1. */
    readonly jitter?: number
    /**
     * The outage of the CA that certificates outlive, milliseconds: they are renewed that long before they end, and in
     * the window around `ratio` at the latest. One with too short a life is renewed by `ratio`, and reported. Default: none.
     */
    readonly surviveMs?: number
    /**
     * How long a new root is only trusted before leaves under it are served, milliseconds. Default: by how the CA's roots
     * become known, see {@link defaultSettleMs}.
     */
    readonly settleMs?: number
    /** How long leaves under a new root wait for silent clients, milliseconds. Default: 60,000. */
    readonly ackWaitMs?: number
    /**
     * How long a root stays after the CA has given it up, milliseconds: other nodes may learn of it later. Default:
     * 3,600,000, or half an hour more than `settleMs` where that is longer.
     */
    readonly overlapMs?: number
  }
  /** How often a CA without `subscribe` is asked for its roots, milliseconds. Default: 300,000. */
  readonly rootsPollMs?: number
  /** Per identity, doubling ±20 %, reset on success. Defaults: 500 and 150,000 ms. */
  readonly retry?: { readonly minMs?: number; readonly maxMs?: number }
  /** Deadline of one call to the CA, milliseconds. Default: 30,000. */
  readonly timeoutMs?: number
  /** The most calls to the CA in flight; the number adapts to the CA's capacity. Default: 64. */
  readonly concurrency?: number
  /** How long an identity that was removed is still held and renewed, milliseconds. Default: 300,000. */
  readonly removalGraceMs?: number
  readonly idle?: {
    /** How long an identity without a subscriber takes to be idle, milliseconds. Default: 3,600,000. */
    readonly afterMs?: number
    /**
     * The treatment of an idle pinned identity: `renew` keeps its certificate fresh, `drop` wipes the key
     * until somebody subscribes again. An on-demand identity is forgotten in either case. Default: `renew`.
     */
    readonly action?: IdleAction
  }
  /**
   * The most identities kept, at about 12 KB each while nobody streams them: the default of 20,000 is some 240 MB. Pinned
   * identities always have room; an on-demand one replaces the identity that was unused for longest, or is rejected if
   * there is none.
   */
  readonly maxIdentities?: number
  /** Subscribe before the manager is made, to get the reports on the store as well. Default: new ones. */
  readonly events?: Events<SecretReport>
}

/** The defaults of the options that have one value, in the units of the options. */
export const DEFAULT_OPTIONS = {
  keyType: 'ecdsa-p256',
  keyFormat: 'pkcs8',
  ttlSeconds: 86_400,
  rotation: { ratio: 0.5, jitter: 0.1, ackWaitMs: 60_000 },
  rootsPollMs: 300_000,
  retry: { minMs: 500, maxMs: 150_000 },
  timeoutMs: 30_000,
  concurrency: 64,
  removalGraceMs: 300_000,
  idle: { afterMs: 3_600_000, action: 'renew' },
  maxIdentities: 20_000,
} as const satisfies Partial<SecretManagerOptions>

/** The options with every default filled in. */
export interface SecretManagerSettings extends Scheduling {
  readonly fetching: Omit<FetchOptions, 'reader' | 'bundles' | 'rootList'>
}

/** The settings that requests and roots are planned by. */
export interface Scheduling {
  readonly ttlSeconds: number
  readonly random: () => number
  readonly rotation: RotationPolicy & RootTimes & { readonly ackWaitMs: number }
  readonly rootsPollMs: number
  readonly retry: RetryPolicy
  readonly concurrency: number
  readonly removalGraceMs: number
  readonly idle: { readonly afterMs: number; readonly action: IdleAction }
  readonly maxIdentities: number
}

/** Reads the options, once. */
export function withDefaults(options: SecretManagerOptions): SecretManagerSettings {
  const { vault = plainKeyVault } = options
  return {
    fetching: {
      ca: options.ca,
      pending: options.store?.pending ?? new PendingRequestsInMemory(),
      keyGenerator: options.keyGenerator,
      verifier: options.verifier ?? nodeCertificateVerifier,
      vault,
      clock: options.clock,
      keyType: options.keyType ?? DEFAULT_OPTIONS.keyType,
      keyFormat: options.keyFormat ?? DEFAULT_OPTIONS.keyFormat,
      timeoutMs: options.timeoutMs ?? DEFAULT_OPTIONS.timeoutMs,
    },
    ...schedulingOf(options, learnedBy(options.ca)),
  }
}

/** `roots`: how this process hears of the CA's roots. */
export function schedulingOf(
  options: Pick<SecretManagerOptions, keyof Scheduling>,
  roots: CACapabilities['roots'],
): Scheduling {
  const { ttlSeconds, rootsPollMs } = { ...DEFAULT_OPTIONS, ...options }
  const rotation: SecretManagerOptions['rotation'] & RotationPolicy & { readonly ackWaitMs: number } = {
    ...DEFAULT_OPTIONS.rotation,
    ...options.rotation,
  }
  const settle = { ...rotation, roots, pollMs: rootsPollMs, lifetimeMs: ttlSeconds * 1_000 }
  const settleMs = rotation.settleMs ?? defaultSettleMs(settle)
  return {
    ttlSeconds,
    random: options.random ?? Math.random,
    rotation: {
      ...rotation,
      settleMs,
      ownSettleMs: rotation.settleMs ?? OWN_SETTLE_MS,
      overlapMs: rotation.overlapMs ?? defaultOverlapMs(settleMs),
    },
    rootsPollMs,
    retry: { ...DEFAULT_OPTIONS.retry, ...options.retry },
    concurrency: options.concurrency ?? DEFAULT_OPTIONS.concurrency,
    removalGraceMs: options.removalGraceMs ?? DEFAULT_OPTIONS.removalGraceMs,
    idle: { ...DEFAULT_OPTIONS.idle, ...options.idle },
    maxIdentities: options.maxIdentities ?? DEFAULT_OPTIONS.maxIdentities,
  }
}

/** How this process hears of the CA's roots. */
function learnedBy({ trustBundle, subscribe }: CAClient): CACapabilities['roots'] {
  if (!trustBundle) return 'none'
  return subscribe ? 'push' : 'poll'
}
