/** Restores an identity's certificate from a store, checked as a CA's answer is before it is served. */

import { CAError } from '../contract/ca-client.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { type Store, StoreError } from '../contract/store.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { withDeadline } from '../time/deadline.ts'
import type { OfferedRoots, TrustStore } from '../trust/trust-store.ts'
import { type CertificateVerifier, faultOf } from '../x509/ca-answer-verifier.ts'
import { splitCertificates } from '../x509/pem.ts'
import { toIssued } from './issue-certificate.ts'

/** A disk that hangs must not keep the CA from being asked. */
const READ_MS = 5_000

export interface RestorationOptions {
  readonly store: Store
  readonly trust: TrustStore
  readonly verifier: CertificateVerifier
  readonly vault: KeyVault
  readonly clock: Clock
  readonly record: (name: string, event: SecretEvent) => void
}

/** A certificate from the disk, served without asking the CA. `isProvisional`: a certificate of the CA should replace it soon. */
export interface Restored extends Issued {
  readonly source: 'store' | 'bootstrap'
  readonly isProvisional: boolean
}

interface Found {
  readonly chain: Uint8Array
  readonly privateKey: Uint8Array
  readonly roots?: readonly string[]
  readonly rootsFor?: 'identity'
  readonly receivedAt: number
  readonly phase: number
  readonly isProvisional: boolean
}

/**
 * The stored certificate, or else the pair that an operator has placed; `undefined` if neither can be used, with the reason reported.
 * Never rejects.
 */
export async function restore(options: RestorationOptions, identity: SpiffeId): Promise<Restored | undefined> {
  const { store, clock } = options
  const kept = await check(options, identity, 'store', () => store.read(identity))
  if (kept) return kept
  return await check(options, identity, 'bootstrap', async () => {
    const pair = await store.bootstrap(identity)
    return pair && { ...pair, receivedAt: clock.now(), phase: 0, isProvisional: true }
  })
}

function diskIsLate(): Error {
  return new Error(`the disk did not answer within ${READ_MS} ms`)
}

async function check(
  { trust, verifier, vault, clock, record }: RestorationOptions,
  identity: SpiffeId,
  source: Restored['source'],
  read: () => Promise<Found | undefined>,
): Promise<Restored | undefined> {
  const reading = read()
  let privateKey: SealedKey | undefined
  try {
    const found = await withDeadline({ clock, ms: READ_MS, error: diskIsLate }, () => reading)
    if (!found) return undefined
    const sealed = new SealedKey(vault, found.privateKey)
    privateKey = sealed
    const chain = splitCertificates(Buffer.from(found.chain).toString('latin1'))
    const offered = await offeredRoots(trust, identity, found)
    const anchors = trust.anchorsFor(offered)
    if (anchors.length === 0) throw new StoreError('unusable-entry', NO_ROOT[source])
    const expected = { identity, anchors: anchors.map(anchor => anchor.certificate), now: clock.now() }
    const verified = sealed.open(privateKeyPem => verifier.verify(chain, { ...expected, key: { privateKeyPem } }))
    const { phase, isProvisional } = found
    // A clock that was set back must not put off the renewal.
    const receivedAt = Math.min(found.receivedAt, clock.now())
    // It is no word of the CA's on what it names no longer.
    const accepted = trust.accept({ ...offered, isWhole: false }, verified)
    return {
      ...toIssued(trust, verified, accepted, { identity, privateKey: sealed, source, receivedAt, phase }),
      source,
      isProvisional,
    }
  } catch (error) {
    privateKey?.wipe()
    void wipeLate(reading)
    record(identity, { kind: 'not-restored', reason: `${WHAT[source]}: ${reasonOf(error)}` })
    return undefined
  }
}

/** Wipes the key of a file that was read too late. Never rejects. */
async function wipeLate(reading: Promise<Found | undefined>): Promise<void> {
  try {
    const found = await reading
    found?.privateKey.fill(0)
  } catch {} // there is none
}

/** Does not ask the CA: while it has listed no roots, ten thousand identities would each ask again. */
async function offeredRoots(
  trust: TrustStore,
  identity: SpiffeId,
  { roots = [], rootsFor }: Found,
): Promise<OfferedRoots> {
  if (roots.length === 0 && !trust.bundles.get(trustDomainOf(identity))) await trust.firstAsked
  return await trust.readOffered(identity, { roots, ...(rootsFor && { rootsFor }) })
}

const WHAT = { store: 'the stored certificate', bootstrap: 'the bootstrap certificate' } as const

const NO_ROOT = {
  store: 'no root is known that it could be under',
  bootstrap: 'no root is known that it could be under: put the root into its file, behind the chain',
} as const

function reasonOf(error: unknown): string {
  if (error instanceof CAError) return faultOf(error)
  return error instanceof Error ? error.message : String(error)
}
