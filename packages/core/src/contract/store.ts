/** The contract of what outlives the process: certificates with their keys, roots, requests that wait for an approval. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Events } from './events.ts'
import type { GeneratedKey } from './key-generator.ts'
import type { SealedKey } from './key-vault.ts'
import type { SecretEvent } from './secret-event.ts'
import type { StoredRoot } from './trust-anchor.ts'

/** A key that was generated, sealed as soon as it came. */
export interface HeldKey extends Pick<GeneratedKey, 'csrDer' | 'publicKeyDer'> {
  readonly sealed: SealedKey
}

/** A request that the next attempt of an identity continues. */
export interface PendingRequest {
  /** The plugin's note, by which it finds its request again. */
  readonly note: string
  /** See {@link wishText}: its CSR has the names of that wish. */
  readonly wish: string
  /** The caller owns it. */
  readonly key: HeldKey
}

/** Where pending requests are kept: in memory, or in a store that outlives the process. */
export interface PendingRequests extends Disposable {
  /** A copy of what was kept last. */
  get(identity: SpiffeId): Promise<PendingRequest | undefined>
  /** Whether something is kept, or was by the previous process. */
  has(identity: SpiffeId): boolean
  /** Stores a copy, which replaces what was there; resolves when it is safe. */
  put(identity: SpiffeId, request: PendingRequest): Promise<void>
  /** Wipes what is kept. Never throws. */
  drop(identity: SpiffeId): void
  /** Wipes what is in memory. Nothing is kept or dropped from then on: what outlives the process stays. */
  [Symbol.dispose](): void
}

/** A certificate with its key as it is kept. */
export interface StoredCertificate {
  /** PEM, leaf first, without the root. */
  readonly chain: Uint8Array
  /** PEM. The reader owns the bytes that it gets; the writer keeps owning its own. */
  readonly privateKey: Uint8Array
  /** When it came from the CA, milliseconds since the epoch: its renewal is planned from there. */
  readonly receivedAt: number
  /** The place of its renewal in the window, in [0, 1). */
  readonly slot: number
  /** See {@link wishText}. */
  readonly wish: string
  /** Served only until its source, which is asked at once, answers. */
  readonly isProvisional: boolean
  /** The roots that count for this identity only (PEM, one per element), where it has its own. */
  readonly roots?: readonly string[]
  readonly rootsFor?: 'identity'
}

/** A pair that an operator has placed for an identity. */
export interface BootstrapCertificate {
  readonly chain: Uint8Array
  /** PEM. The caller owns its bytes. */
  readonly privateKey: Uint8Array
  /** The self-signed certificates beside it (PEM, one per element). */
  readonly roots: readonly string[]
}

/**
 * Keeps secrets from one process to the next. A stored secret is checked as a CA's answer is. It blocks nobody:
 * keeping and forgetting return at once, and a write that fails is reported and tried again.
 */
export interface Store {
  /** Requests that wait for an approval, with their keys. */
  readonly pending: PendingRequests
  /** The roots of the previous process. */
  readonly roots: readonly StoredRoot[]
  /** Marks the entry of `identity` as taken. Returns whether there may be one. */
  take(identity: SpiffeId): boolean
  /** The certificate that was stored last. Rejects with a {@link StoreError} if that cannot be used. */
  read(identity: SpiffeId): Promise<StoredCertificate | undefined>
  /** The pair that an operator has placed. Rejects with a {@link StoreError} if that cannot be used. */
  bootstrap(identity: SpiffeId): Promise<BootstrapCertificate | undefined>
  /** Stores a copy, which replaces what was there. */
  put(identity: SpiffeId, certificate: StoredCertificate): void
  /** Wipes what is kept of `identity`, a pending request included. */
  forget(identity: SpiffeId): void
  putRoots(roots: readonly StoredRoot[]): void
  /** Wipes entries that were there at the start and that nobody has taken. */
  forgetUntaken(): void
  /** Reports each failure in the background. */
  readonly failures: Events<StoreFailureReport>
}

/** `name` is the identity or the trust domain's ID. */
export interface StoreFailureReport {
  readonly name: string
  readonly failure: StoreFailure
}

/** `not-stored`: a write or a wipe failed, and is tried again. `not-restored`: an entry is not used. */
export type StoreFailure = Extract<SecretEvent, { kind: 'not-stored' | 'not-restored' }>

/** `unusable-directory`, `unusable-key`: the store cannot be opened. `unusable-entry`: an entry in it is not used. */
export type StoreErrorCode = 'unusable-directory' | 'unusable-entry' | 'unusable-key'

/** Names the unusable file, the reason and the remedy; never quotes a file's content. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode

  constructor(code: StoreErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options)
    this.code = code
  }
}
