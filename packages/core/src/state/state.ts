/** All that is kept and known: the engine owns it, and `decide` alone changes it. */

import type { PendingRequests, Store } from '../contract/store.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { Heap } from '../time/heap.ts'
import { BundleReceipts, type ReceiptEvent } from '../trust/bundle-receipts.ts'
import { BundleTable } from '../trust/bundle-table.ts'
import { RevocationTable } from '../trust/revocation.ts'
import type { RootTimes } from '../trust/settle-time.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import { type CAHealth, newCAHealth } from './ca-health.ts'
import { FetchQueue } from './fetch-queue.ts'
import { type Identity, nextAt } from './identity.ts'
import { type IdleAction, Unused } from './unused.ts'

export interface State {
  /** Identities in order of arrival. */
  readonly identities: Map<SpiffeId, Identity>
  /** The watched identities, kept or not: a match with a pattern is no reason to keep one. */
  readonly watched: Pick<ReadonlyMap<SpiffeId, unknown>, 'has'>
  readonly unused: Unused
  /** Watched identities without room, in the order in which they were asked for. */
  readonly rejected: Set<SpiffeId>
  /** Requests to the CA. */
  readonly queue: FetchQueue<Identity>
  /** Reads from the store. */
  readonly restoring: FetchQueue<Identity>
  readonly ca: CAHealth
  /** The lifetime of a certificate without a wish for another. */
  readonly ttlSeconds: number
  /** The last lowered lifetime that the CA accepted: the next refused identity tries it first. */
  acceptedTtlSeconds: number | undefined
  /** When the next request for a changed wish may go out, milliseconds since the epoch. */
  nextWishAt: number
  /** Each lifetime is reported once, not once per identity. */
  lowestTtlReported: number
  /** The shortest life reported as too short for the outage that certificates should outlive, milliseconds. */
  shortestLifeReported: number
  /** The agent's own. */
  readonly trustDomain: string
  readonly bundles: BundleTable
  readonly crls: RevocationTable
  /** The bundles that live streams were sent, and their answers: the server reports them. */
  readonly receipts: BundleReceipts
  /** Requests that wait for somebody's approval. */
  readonly pending: Pick<PendingRequests, 'has'>
  /** The store of the previous process. */
  readonly stored: Pick<Store, 'take'> | undefined
  /** When identities and bundles are looked at by themselves. */
  readonly wakes: Heap<Identity>
  readonly bundleWakes: Heap<TrustBundle>
  /** When untaken entries of the store are wiped; infinite once that is done. */
  clearStoreAt: number
  isClosed: boolean
}

export interface StateParts
  extends Pick<State, 'watched' | 'trustDomain' | 'pending' | 'stored' | 'clearStoreAt' | 'ttlSeconds'> {
  readonly concurrency: number
  readonly idle: { readonly afterMs: number; readonly action: IdleAction }
  readonly rotation: RootTimes
  /** Decides on what streams report of a root that is announced. */
  readonly dispatch: (event: ReceiptEvent) => void
}

export function newState({ concurrency, idle, rotation, dispatch, ...parts }: StateParts): State {
  const crls = new RevocationTable()
  const bundles = new BundleTable(parts.trustDomain, rotation, crls)
  return {
    ...parts,
    bundles,
    crls,
    receipts: new BundleReceipts(name => bundles.isAnnouncing(name), dispatch),
    identities: new Map(),
    unused: new Unused(idle),
    rejected: new Set(),
    queue: new FetchQueue(),
    restoring: new FetchQueue(),
    ca: newCAHealth(concurrency),
    acceptedTtlSeconds: undefined,
    nextWishAt: 0,
    lowestTtlReported: Number.POSITIVE_INFINITY,
    shortestLifeReported: Number.POSITIVE_INFINITY,
    wakes: new Heap(),
    bundleWakes: new Heap(),
    isClosed: false,
  }
}

/** The identities that have roots of the bundle: its owner, or all of its trust domain. */
export function* membersOf({ identities }: State, { owner, trustDomain }: TrustBundle): Iterable<Identity> {
  const single = owner && identities.get(owner)
  if (single) yield single
  if (owner) return
  for (const identity of identities.values()) if (trustDomainOf(identity.id) === trustDomain) yield identity
}

/** Whether somebody watches this very identity. */
export function isUsed({ watched }: State, { id }: Identity): boolean {
  return watched.has(id)
}

/** Call after a time of the identity changed: it is looked at then. */
export function armWake({ wakes }: State, identity: Identity): void {
  wakes.put(identity, nextAt(identity))
}
