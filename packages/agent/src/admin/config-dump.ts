/** The answer of `/config_dump`: ztunnel's field names, so that its tools read it; certificates, never a key. */
import { X509Certificate } from 'node:crypto'
import type { BundleEntry, CertificateSecret, FailureCode, IdentityEntry, ScheduleStatus } from '@livery/core'
import type { FileSecretEntry } from '@livery/core/file-secrets'
import { type Clock, type SpiffeId, splitCertificates, trustDomainOf } from '@livery/core/plugin'
import { momentOf } from '../diagnosis/diagnosis.ts'
import { type Moment, preflightWarning, troubleOf } from '../diagnosis/identity-verdict.ts'
import { type StateName, stateName } from '../observe/identity-text.ts'

/** A certificate as ztunnel dumps it: `pem` is base64 of the PEM text. */
export interface DumpedCertificate {
  readonly pem: string
  /** Decimal, as ztunnel prints it. */
  readonly serialNumber: string
  /** RFC 3339. */
  readonly validFrom: string
  readonly expirationTime: string
}

/** Why an identity has no certificate, or soon has none: its attempts have failed since the last success. */
export interface DumpedFailure {
  readonly code: FailureCode
  /** The text of the newest failure. */
  readonly text: string
  /** RFC 3339; when the first failure in a row came. */
  readonly since: string
  /** RFC 3339; absent while an attempt waits for its turn or is in flight. */
  readonly nextTry?: string
  /** Seconds until the certificate in use ends; 0 without one. */
  readonly remainingSeconds: number
}

export interface DumpedIdentity {
  readonly identity: string
  readonly state: StateName
  readonly certChain: readonly DumpedCertificate[]
  readonly rootCerts: readonly DumpedCertificate[]
  /** RFC 3339; when it is renewed or tried next, if that is planned. */
  readonly renewAt?: string
  /** RFC 3339; how long it can be served if the CA gives nothing any more. Absent while it has nothing that peers accept. */
  readonly lastsUntil?: string
  /** Absent unless the last attempt failed. */
  readonly lastFailure?: DumpedFailure
  /** Why clients would refuse its certificate, or the next one, given the roots that they are served. */
  readonly warning?: string
  /** The reason of what is wrong; absent while nothing is. */
  readonly problem?: string
}

/** A secret in files, which streams request by file name. */
export interface DumpedFileSecret {
  readonly name: string
  /** `Initializing`, `Available`, or `Unavailable`; after a colon why its files cannot be used now. */
  readonly state: string
  /** RFC 3339; when it was read last with another content. */
  readonly changedAt?: string
  /** RFC 3339; absent for roots, and while nothing is served. */
  readonly expirationTime?: string
}

export interface ConfigDump {
  readonly version: string
  /** Sorted by identity. */
  readonly certificates: readonly DumpedIdentity[]
  /** Sorted by name. */
  readonly files: readonly DumpedFileSecret[]
  /** The configuration, as `livery check-config --json` prints it, and the keys that need a restart. */
  readonly config: object
}

/** The source of a dump that is being sent: each identity is read when its turn comes. */
interface DumpSource {
  readonly version: string
  readonly clock: Clock
  schedule(): ScheduleStatus
  config(): object
  entries(): readonly IdentityEntry[]
  entry(identity: string): IdentityEntry | undefined
  bundles(): readonly BundleEntry[]
  files(): readonly FileSecretEntry[]
}

/** A {@link ConfigDump} as JSON in pieces of one identity each: ten thousand of them are 40 MB. */
export function* dumpPieces(source: DumpSource): Generator<string, void, undefined> {
  const identities = Array.from(source.entries(), ({ identity }) => identity).sort()
  const certificates = new CertificateTexts(source.bundles())
  yield `{"version":${JSON.stringify(source.version)},"certificates":[`
  let separator = '\n'
  for (const identity of identities) {
    const entry = source.entry(identity)
    if (!entry) continue
    yield `${separator}${identityText(entry, certificates, momentOf(source))}`
    separator = ',\n'
  }
  yield '\n],"files":'
  yield* jsonPieces(source.files().map(dumpedFile).sort(byName))
  yield ',"config":'
  yield* jsonPieces(source.config())
  yield '}\n'
}

function identityText(entry: IdentityEntry, certificates: CertificateTexts, moment: Moment): string {
  const { identity, secret, renewAt, lastsUntil } = entry
  const chain = secret ? certificates.ofChain(secret) : ''
  const roots = secret ? certificates.ofRoots(identity) : ''
  const renewal = renewAt === undefined ? '' : `,"renewAt":"${rfc3339(renewAt)}"`
  const lasting = lastsUntil === undefined ? '' : `,"lastsUntil":"${rfc3339(lastsUntil)}"`
  const failure = dumpedFailure(entry, moment.now)
  const lastFailure = failure ? `,"lastFailure":${JSON.stringify(failure)}` : ''
  const warning = entry.preflight ? `,"warning":${JSON.stringify(preflightWarning(entry.preflight))}` : ''
  const verdict = troubleOf(entry, moment)
  const problem = verdict ? `,"problem":${JSON.stringify(verdict.reason)}` : ''
  const state = JSON.stringify(stateName(entry.state))
  return `{"identity":${JSON.stringify(identity)},"state":${state},"certChain":[${chain}],"rootCerts":[${roots}]${renewal}${lasting}${lastFailure}${warning}${problem}}`
}

/** `undefined` unless the last attempt failed. */
function dumpedFailure(
  { lastFailure, failingSince, renewAt, secret }: IdentityEntry,
  now: number,
): DumpedFailure | undefined {
  if (!lastFailure || failingSince === undefined) return undefined
  return {
    code: lastFailure.code,
    text: lastFailure.message,
    since: rfc3339(failingSince),
    ...(renewAt !== undefined && { nextTry: rfc3339(renewAt) }),
    remainingSeconds: secret ? Math.max(0, Math.floor((secret.notAfter - now) / 1000)) : 0,
  }
}

function rfc3339(time: number): string {
  return new Date(time).toISOString()
}

function dumpedFile({ name, isServed, changedAt, notAfter, fault }: FileSecretEntry): DumpedFileSecret {
  return {
    name,
    state: fileState(isServed, fault ?? (isServed || changedAt === undefined ? undefined : 'expired')),
    ...(changedAt !== undefined && { changedAt: rfc3339(changedAt) }),
    ...(notAfter !== undefined && { expirationTime: rfc3339(notAfter) }),
  }
}

/** `reason`: why it is not served, or not as its files are now. */
function fileState(isServed: boolean, reason: string | undefined): string {
  if (reason === undefined) return isServed ? 'Available' : 'Initializing'
  return `${isServed ? 'Available' : 'Unavailable'}: ${reason}`
}

function byName(a: DumpedFileSecret, b: DumpedFileSecret): number {
  return a.name < b.name ? -1 : 1
}

type Facts = Omit<DumpedCertificate, 'pem'>

/** Facts of leaves from an earlier dump: parsing one takes longer than all the rest. */
const leafFacts = new WeakMap<CertificateSecret, Facts>()

/** The certificates of one dump as JSON. Thousands of leaves have the same few roots and intermediates. */
class CertificateTexts {
  readonly #roots: ReadonlyMap<string, string>
  /** Additional roots of single identities. */
  readonly #ownRoots: ReadonlyMap<string | undefined, BundleEntry>
  readonly #intermediates = new Map<string, string>()

  constructor(bundles: readonly BundleEntry[]) {
    const shared = bundles.filter(({ identity }) => identity === undefined)
    this.#roots = new Map(shared.map(bundle => [bundle.trustDomain, rootsText(bundle)]))
    this.#ownRoots = new Map(
      bundles.flatMap(bundle => (bundle.identity === undefined ? [] : [[bundle.identity, bundle]])),
    )
  }

  /** The identity's own roots, then its trust domain's. */
  ofRoots(identity: SpiffeId): string {
    const own = this.#ownRoots.get(identity)
    const ofTrustDomain = this.#roots.get(trustDomainOf(identity)) ?? ''
    if (!own) return ofTrustDomain
    return ofTrustDomain === '' ? rootsText(own) : `${rootsText(own)},${ofTrustDomain}`
  }

  ofChain(secret: CertificateSecret): string {
    const [leaf, ...intermediates] = splitCertificates(secret.certificateChain.toString('latin1'))
    if (leaf === undefined) return ''
    const facts = leafFacts.get(secret) ?? factsOf(new X509Certificate(leaf))
    leafFacts.set(secret, facts)
    return [certificateText(leaf, facts), ...intermediates.map(pem => this.#intermediate(pem))].join(',')
  }

  #intermediate(pem: string): string {
    const known = this.#intermediates.get(pem)
    if (known !== undefined) return known
    const made = certificateText(pem, factsOf(new X509Certificate(pem)))
    if (this.#intermediates.size < MAX_INTERMEDIATES) this.#intermediates.set(pem, made)
    return made
  }
}

function rootsText({ roots }: BundleEntry): string {
  return roots.map(({ pem, certificate }) => certificateText(pem, factsOf(certificate))).join(',')
}

/** A node has as many as its CAs; a separate chain for each identity is not worth the memory. */
const MAX_INTERMEDIATES = 64

function factsOf(certificate: X509Certificate): Facts {
  return {
    serialNumber: BigInt(`0x${certificate.serialNumber}`).toString(),
    validFrom: certificate.validFromDate.toISOString(),
    expirationTime: certificate.validToDate.toISOString(),
  }
}

function certificateText(pem: string, facts: Facts): string {
  const certificate: DumpedCertificate = { pem: Buffer.from(pem, 'latin1').toString('base64'), ...facts }
  return JSON.stringify(certificate)
}

/** `JSON.stringify` in pieces: a configuration that lists ten thousand identities is megabytes of it. */
function* jsonPieces(value: unknown): Generator<string, void, undefined> {
  if (Array.isArray(value)) {
    yield '['
    for (const [index, item] of value.entries()) {
      if (index > 0) yield ','
      yield* jsonPieces(item)
    }
    yield ']'
  } else if (typeof value === 'object' && value !== null) {
    yield '{'
    let separator = ''
    for (const [key, item] of Object.entries(value)) {
      if (item === undefined) continue
      yield `${separator}${JSON.stringify(key)}:`
      yield* jsonPieces(item)
      separator = ','
    }
    yield '}'
  } else yield JSON.stringify(value) ?? 'null'
}
