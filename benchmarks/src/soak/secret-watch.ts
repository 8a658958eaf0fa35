/** Checks every secret that arrives, and each name's certificates over time: nothing wrong, nothing twice, no gap. */
import { X509Certificate } from 'node:crypto'
import type { CertificateVerifier } from '@livery/core'
import { type SpiffeId, splitCertificates } from '@livery/core/plugin'
import type { ReceivedSecret } from './discovery-messages.ts'

/** The events since the last report; times are milliseconds since the epoch. */
export interface WatchReport {
  readonly at: number
  /** The number of all secrets. */
  readonly seen: number
  /** Names that have a certificate. */
  readonly served: number
  /** Replacements of a certificate by the next one. */
  readonly renewals: number
  /** The least time left of a certificate when its successor came, ms; `undefined` without a renewal. */
  readonly leastLeftMs: number | undefined
  readonly failures: readonly string[]
  /** The number of all failures; only the first few have a text. */
  readonly failureCount: number
}

interface Held {
  readonly serialNumber: string
  readonly notAfter: number
  /** Whether its expiry without a successor was reported. */
  isGapTold: boolean
}

/** More texts add nothing. */
const MOST_WORDS = 20

export class SecretWatch {
  readonly #verifier: CertificateVerifier
  readonly #held = new Map<string, Held>()
  readonly #serials = new Set<string>()
  #anchors: readonly X509Certificate[] = []
  #seen = 0
  #renewals = 0
  #leastLeftMs: number | undefined
  #failures: string[] = []
  #failureCount = 0

  constructor(verifier: CertificateVerifier) {
    this.#verifier = verifier
  }

  /** `asked`: the name that the stream requested. `now`: milliseconds since the epoch. */
  take(secret: ReceivedSecret, asked: string, now: number): void {
    this.#seen++
    if (secret.name !== asked) this.fail(`${asked}: got ${secret.name}`)
    if (secret.kind === 'roots') this.#takeRoots(secret.pem, now)
    else this.#takeCertificate(secret, now)
  }

  /** Finds names whose newest certificate has ended without a successor. */
  scan(now: number): void {
    for (const [name, held] of this.#held) {
      if (held.notAfter > now || held.isGapTold) continue
      held.isGapTold = true
      this.fail(`${name}: its certificate ended at ${iso(held.notAfter)}, and none has come since`)
    }
  }

  /** Counts a failure, also one that no secret caused. */
  fail(text: string): void {
    this.#failureCount++
    if (this.#failures.length < MOST_WORDS) this.#failures.push(text)
  }

  /** Reports and resets the counts. */
  report(at: number): WatchReport {
    const report = {
      at,
      seen: this.#seen,
      served: this.#held.size,
      renewals: this.#renewals,
      leastLeftMs: this.#leastLeftMs,
      failures: this.#failures,
      failureCount: this.#failureCount,
    }
    this.#renewals = 0
    this.#leastLeftMs = undefined
    this.#failures = []
    return report
  }

  #takeRoots(pem: string, now: number): void {
    const anchors = splitCertificates(pem).map(each => new X509Certificate(each))
    if (anchors.length === 0) this.fail('ROOTCA: holds no certificate')
    for (const anchor of anchors)
      if (anchor.validToDate.getTime() <= now) this.fail(`ROOTCA: a root ended at ${anchor.validTo}`)
    this.#anchors = anchors
  }

  #takeCertificate({ name, chain, privateKey }: ReceivedSecret & { kind: 'certificate' }, now: number): void {
    const certificate = this.#verify(name as SpiffeId, chain, privateKey, now)
    if (!certificate) return
    const { serialNumber, notBefore, notAfter } = certificate
    if (notBefore > now) this.fail(`${name}: is valid from ${iso(notBefore)} on only, and it is ${iso(now)}`)
    const held = this.#held.get(name)
    if (held) this.#replace(name, held, now)
    if (held?.serialNumber === serialNumber) this.fail(`${name}: serial ${serialNumber} came a second time`)
    else if (this.#serials.has(serialNumber)) this.fail(`${name}: serial ${serialNumber} was another's`)
    this.#serials.add(serialNumber)
    this.#held.set(name, { serialNumber, notAfter, isGapTold: false })
  }

  /** Verifies the chain against the current ROOTCA, the key, the SAN and the dates. */
  #verify(identity: SpiffeId, chain: string, privateKeyPem: Buffer, now: number) {
    try {
      return this.#verifier.verify(splitCertificates(chain), {
        identity,
        key: { privateKeyPem },
        anchors: this.#anchors,
        now,
      })
    } catch (error) {
      this.fail(`${identity}: ${error instanceof Error ? error.message : String(error)}`)
      return undefined
    }
  }

  #replace(name: string, { notAfter, isGapTold }: Held, now: number): void {
    const left = notAfter - now
    this.#renewals++
    this.#leastLeftMs = Math.min(left, this.#leastLeftMs ?? left)
    if (left <= 0 && !isGapTold) this.fail(`${name}: had none for ${-left} ms`)
  }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
