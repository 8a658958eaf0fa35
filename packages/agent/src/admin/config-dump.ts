/** What `/config_dump` shows: ztunnel's field names, so that its tools read it; certificates, never a key. */
import { X509Certificate } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type BundleEntry, type IdentityEntry, splitCertificates, trustDomainOf } from '@livery/core'

/** A certificate as ztunnel dumps it: `pem` is base64 of the PEM text. */
export interface DumpedCertificate {
  readonly pem: string
  /** Decimal, as ztunnel prints it. */
  readonly serialNumber: string
  /** RFC 3339. */
  readonly validFrom: string
  readonly expirationTime: string
}

export interface DumpedIdentity {
  readonly identity: string
  /** `Initializing`, `Available`, `Idle` (dropped until it is used), or `Unavailable: <reason>`. */
  readonly state: string
  readonly certChain: readonly DumpedCertificate[]
  readonly rootCerts: readonly DumpedCertificate[]
  /** RFC 3339; when it is renewed or tried next, if that is planned. */
  readonly renewAt?: string
}

export interface ConfigDump {
  readonly version: string
  /** Sorted by identity. */
  readonly certificates: readonly DumpedIdentity[]
  /** The configuration, as `livery check-config --json` prints it, and the keys that need a restart. */
  readonly config: object
}

/** Identities between two turns of the event loop: parsing ten thousand certificates takes a while. */
const BATCH = 100

/** Sorted by identity; the roots are the identity's own, then those of its trust domain. */
export async function dumpCertificates(
  entries: readonly IdentityEntry[],
  bundles: readonly BundleEntry[],
): Promise<DumpedIdentity[]> {
  const roots = new Map(
    bundles.filter(({ identity }) => !identity).map(bundle => [bundle.trustDomain, dumpRoots(bundle)]),
  )
  const own = new Map(bundles.map(bundle => [bundle.identity, bundle]))
  const dumped: DumpedIdentity[] = []
  for (const entry of entries.toSorted((a, b) => (a.identity < b.identity ? -1 : 1))) {
    const ofTrustDomain = roots.get(trustDomainOf(entry.identity)) ?? []
    dumped.push(dumpIdentity(entry, [...dumpRoots(own.get(entry.identity)), ...ofTrustDomain]))
    if (dumped.length % BATCH === 0) await setImmediate()
  }
  return dumped
}

function dumpRoots(bundle: BundleEntry | undefined): readonly DumpedCertificate[] {
  return bundle?.roots.map(({ pem }) => dumpCertificate(pem)) ?? []
}

function dumpIdentity(entry: IdentityEntry, roots: readonly DumpedCertificate[]): DumpedIdentity {
  const chain = entry.secret ? splitCertificates(entry.secret.certificateChain.toString()) : []
  return {
    identity: entry.identity,
    state: dumpState(entry),
    certChain: chain.map(dumpCertificate),
    rootCerts: entry.secret ? roots : [],
    ...(entry.renewAt === undefined ? {} : { renewAt: new Date(entry.renewAt).toISOString() }),
  }
}

function dumpState({ state, lastFailure }: IdentityEntry): string {
  if (state === 'initializing') return 'Initializing'
  if (state === 'available') return 'Available'
  if (state === 'idle') return 'Idle'
  return `Unavailable: ${lastFailure ? `${lastFailure.code}: ${lastFailure.message}` : 'expired'}`
}

function dumpCertificate(pem: string): DumpedCertificate {
  const certificate = new X509Certificate(pem)
  return {
    pem: Buffer.from(pem).toString('base64'),
    serialNumber: BigInt(`0x${certificate.serialNumber}`).toString(),
    validFrom: certificate.validFromDate.toISOString(),
    expirationTime: certificate.validToDate.toISOString(),
  }
}
