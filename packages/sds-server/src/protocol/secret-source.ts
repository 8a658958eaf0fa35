/** The server's source of secrets, the few methods of core's SecretManager that it needs, and what one caller may have of it. */
import { ALL_BUNDLES, type FileSecretName, type Receipts, type SecretItem, type SecretName } from '@livery/core'
import { formatFileName } from '@livery/core/file-secrets'
import type { SpiffeId } from '@livery/core/plugin'

/** Implemented by core's SecretManager. Nothing here waits: a watch reports secrets that come later. */
export interface SecretSource {
  readonly trustDomain: string
  /** Receives what each live stream was sent and how its peer answered. Default: none. */
  readonly receipts?: Receipts
  /** The secrets that others write, if the agent serves any. */
  readonly files?: FileSource | undefined
  /** Whether it is an added identity, or a known bundle. */
  knows(name: SecretName): boolean
  identities(): Iterable<SpiffeId>
  /** The trust domains with a bundle, known or awaited, its own first. */
  trustDomains(): Iterable<string>
  /**
   * Calls `listener` with each new version, and with `undefined` when it is withdrawn; never inside this call. A name
   * that is not known yet may be watched.
   */
  watch(name: SecretName, listener: (item: SecretItem | undefined) => void): Disposable
  /** Reports that somebody waits for the identity: it becomes urgent, and is issued on demand if it is not known. */
  request(identity: SpiffeId): void
  /** The newest version that may be used now. Use it at once: its key is wiped when the next version arrives. */
  current(name: SecretName): SecretItem | undefined
}

/** The secrets that others write: a name is watched while somebody has it. */
export interface FileSource {
  /** How many more names of the kind of `name` can be watched, for all callers together. */
  room(name: FileSecretName): number
  /** Why one more name finds no room whatever `room` is; after "it …". */
  noRoom(name: FileSecretName): string | undefined
  /** Whether a name, as `formatFileName` has it, is watched. */
  holds(name: string): boolean
  /** Why a name can never be served; after "it …". */
  refusal(name: FileSecretName): string | undefined
  /** Why the secret cannot be read now, as far as a quick look shows. */
  problem(name: FileSecretName): string | undefined
}

/** Whether the caller of a stream is allowed a name. */
export type Resolution =
  /** It may be requested: it is known, or issued on demand. */
  | { readonly kind: 'granted'; readonly secret: SecretName }
  /** It will be issued on demand in its turn: its caller asks for new identities faster than it may. */
  | { readonly kind: 'postponed'; readonly secret: SecretName; readonly reason: string }
  /** Allowed but unknown; it is answered once it becomes known. */
  | { readonly kind: 'unknown'; readonly secret: SecretName; readonly reason: string }
  | { readonly kind: 'refused'; readonly reason: string }

/** The secrets that one caller is allowed. */
export interface SecretView {
  /** Decides on a name; files, and an identity that would be issued on demand, are granted if `budget` has room. */
  resolve(name: string, budget: NameBudget): Resolution
  /** All names that the caller is allowed, the bundle first; throws a `StreamRefusal` if they are over `limit`. */
  everything(limit: number): readonly string[]
  /**
   * The caller's own identities, in a stable order: the identity behind `default`, or the identities that its rules name
   * and the source knows. Empty if it has none.
   */
  ownIdentities(): readonly SpiffeId[]
  /** Whether the caller is still allowed a granted secret. A view never changes its answers: new rules make a new view. */
  mayHave(secret: SecretName): boolean
}

/** Counts the names of a caller, and what is kept at its request. */
export interface NameBudget {
  /** Counts a name that a stream has; throws a `StreamRefusal` (RESOURCE_EXHAUSTED) where there is no room. */
  addName(length: number): void
  removeName(length: number): void
  /** Whether the next refused name is reported as such: each is a line in the ledger and the log. */
  reportsRefusal(): boolean
  /**
   * Whether one more identity may be issued; else whether its caller holds too many, or asks too fast. `isHeld` reports
   * whether an earlier one is still kept.
   */
  takeIdentity(identity: SpiffeId, isHeld: (identity: SpiffeId) => boolean): 'granted' | 'too-many' | 'too-fast'
  /** Whether one more name of a secret that others write may be watched; else which bound has no room. */
  takeFiles(name: FileSecretName, source: FileSource): 'granted' | 'caller' | 'process'
}

/** The name under which a secret has its ledger: the SPIFFE ID of the identity or of the trust domain, `all-bundles`, or the name of the files. */
export function ledgerName(name: SecretName): string {
  switch (name.kind) {
    case 'identity':
      return name.identity
    case 'bundle':
      return `spiffe://${name.trustDomain}`
    case 'all-bundles':
      return ALL_BUNDLES
    default:
      return formatFileName(name)
  }
}
