/** An identity's certificate in a store: kept for the next process, and read and judged like a CA's answer. */

import { CAError } from '../contract/ca-client.ts'
import { NO_WISH, wishText } from '../contract/certificate-wish.ts'
import { SealedKey } from '../contract/key-vault.ts'
import { type Store, type StoredCertificate, StoreError } from '../contract/store.ts'
import type { Found, RestoreSource } from '../decide/step.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { Identity } from '../state/identity.ts'
import { withDeadline } from '../time/deadline.ts'
import type { BundleTable } from '../trust/bundle-table.ts'
import { faultOf } from '../x509/ca-answer-verifier.ts'
import { splitCertificates } from '../x509/pem.ts'
import type { FetchOptions } from './fetch.ts'

/** A disk that hangs must not keep the CA from being asked. */
const READ_MS = 5_000

/** Stores the certificate in use, not one that waits: a restart must find one that works at once. */
export function keep(store: Store, bundles: BundleTable, { id, current }: Identity): void {
  if (!current || current.source === 'store' || current.source === 'bootstrap') return
  const { secret, source, receivedAt, slot, wish } = current
  const own = bundles.own(id)
  const roots = own && { roots: own.anchors().map(({ pem }) => pem) }
  const facts = {
    chain: secret.certificateChain,
    receivedAt,
    slot,
    wish,
    isProvisional: source === 'brought',
    ...roots,
  }
  secret.privateKey.open(privateKey => store.put(id, { ...facts, privateKey }))
}

/** The stored certificate, or the pair that an operator has placed; a text if it cannot be used. Never rejects. */
export async function restore(
  options: FetchOptions,
  store: Store,
  id: SpiffeId,
  source: RestoreSource,
): Promise<Found | string | undefined> {
  const { bundles, reader, rootList, verifier, vault, clock } = options
  const reading = source === 'store' ? store.read(id) : bootstrap(store, id, clock.now())
  let privateKey: SealedKey | undefined
  try {
    const read = await withDeadline({ clock, ms: READ_MS, error: diskIsLate }, () => reading)
    if (!read) return undefined
    const key = new SealedKey(vault, read.privateKey)
    privateKey = key
    const chain = splitCertificates(Buffer.from(read.chain).toString('latin1'))
    const { roots = [], rootsFor, receivedAt, slot, wish, isProvisional } = read
    // Does not ask the CA: while it has listed no roots, ten thousand identities would each ask again.
    if (roots.length === 0 && !bundles.get(trustDomainOf(id))) await rootList.firstAsked
    const offered = await reader.read(roots, clock.now())
    const anchors = bundles.anchorsFor(id, offered.roots)
    if (anchors.length === 0) throw new StoreError('unusable-entry', NO_ROOT[source])
    const expected = { identity: id, anchors: anchors.map(anchor => anchor.certificate), now: clock.now() }
    const verified = key.open(privateKeyPem => verifier.verify(chain, { ...expected, key: { privateKeyPem } }))
    return { verified, offered, isOwn: rootsFor === 'identity', key, receivedAt, slot, wish, isProvisional }
  } catch (error) {
    privateKey?.wipe()
    void wipeLate(reading)
    return reasonOf(error)
  }
}

async function bootstrap(store: Store, id: SpiffeId, receivedAt: number): Promise<StoredCertificate | undefined> {
  const pair = await store.bootstrap(id)
  return pair && { ...pair, receivedAt, slot: 0, wish: wishText(NO_WISH), isProvisional: true }
}

function diskIsLate(): Error {
  return new Error(`the disk did not answer within ${READ_MS} ms`)
}

/** Wipes the key of a file that was read too late. Never rejects. */
async function wipeLate(reading: Promise<StoredCertificate | undefined>): Promise<void> {
  try {
    const found = await reading
    found?.privateKey.fill(0)
  } catch {} // there is none
}

const NO_ROOT = {
  store: 'no root is known that it could be under',
  bootstrap: 'no root is known that it could be under: put the root into its file, behind the chain',
} as const

function reasonOf(error: unknown): string {
  if (error instanceof CAError) return faultOf(error)
  return error instanceof Error ? error.message : String(error)
}
