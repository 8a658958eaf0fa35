/** The server's source of secrets: the few methods of core's SecretManager that it needs. */
import {
  ALL_BUNDLES,
  type FileSecretName,
  type Receipts,
  type SecretItem,
  type SecretName,
  type Watch,
} from '@livery/core'
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
   * that is not known yet may be watched; `request()` of its watch has it issued on demand.
   */
  watch(name: SecretName, listener: (item: SecretItem | undefined) => void): Watch
}

/** The secrets that others write: a name is watched while somebody has it. */
interface FileSource {
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
