/** A CA that answers as its mode says: well, badly, late, or never. */

import { CAError } from '../../src/contract/ca-client.ts'
import type { VerifiedChain } from '../../src/contract/certificate-verifier.ts'
import { plainKeyVault, SealedKey } from '../../src/contract/key-vault.ts'
import type { Root } from '../../src/contract/trust-anchor.ts'
import type { Answer } from '../../src/decide/step.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import type { Request } from '../../src/state/identity.ts'
import { type Authority, SERIALS, serialOf } from './fixtures.ts'
import type { Random } from './random.ts'

export const MODES = [
  'good',
  'absent',
  'silent',
  'rate-limited',
  'rate-limited-for',
  'unauthenticated',
  'denied',
  'denied-for',
  'ttl-too-long',
  'bad-response',
  'early',
  'short',
  'local-denied',
  'local-rate-limited',
  'local-unavailable',
  'invalid-csr',
  'changing',
  'deferring',
  'deferring-alone',
  'deferring-badly',
] as const

export type Mode = (typeof MODES)[number]

/** A key that counts how often it was wiped. */
export class TrackedKey extends SealedKey {
  readonly of: SpiffeId
  readonly #live: Set<SealedKey>

  constructor(of: SpiffeId, live: Set<SealedKey>) {
    super(plainKeyVault, new Uint8Array(8))
    this.of = of
    this.#live = live
    live.add(this)
  }

  override wipe(): void {
    if (!this.#live.delete(this)) throw new Error(`a key of ${this.of} is wiped twice`)
    super.wipe()
  }
}

export class RandomCA {
  mode: Mode = 'good'
  /** The identities that it concerns, a bit each; all others get a certificate. */
  mask = -1
  /** The wait that it asks for, or the lead of its clock, milliseconds. */
  amount = 0
  latencyMs = 20
  longestMs = 3_600_000
  /** Indices of the authorities that it lists, and the one that it signs with. */
  listed: readonly number[] = [0]
  signer = 0
  /** Identities with own roots. */
  readonly own = new Set<SpiffeId>()
  readonly #random: Random
  readonly #authorities: readonly Authority[]
  readonly #live: Set<SealedKey>

  constructor(random: Random, authorities: readonly Authority[], live: Set<SealedKey>) {
    this.#random = random
    this.#authorities = authorities
    this.#live = live
  }

  /** How long an answer takes, milliseconds. */
  latency(index: number): number {
    if (this.mode === 'silent' && this.#concerns(index)) return Number.POSITIVE_INFINITY
    return this.latencyMs * (0.5 + this.#random.next())
  }

  rootsOf(indices: readonly number[]): readonly Root[] {
    return indices.flatMap(index => this.#authorities[index]?.root ?? [])
  }

  answer(request: Request, index: number, now: number, refusal: Refusal): Answer | CAError {
    const mode = this.#concerns(index) ? this.#modeOfNow() : 'good'
    const { id } = request.of
    const { ttlSeconds } = request
    const failure = this.#deferral(mode, request, now) ?? this.#failure(mode, ttlSeconds)
    if (failure) return failure
    const isEarly = mode === 'early'
    const isShort = mode === 'short'
    const notBefore = isEarly ? now + this.amount : now - 1_000
    const lifeMs = isShort ? 200 + this.#random.below(4_000) : Math.min(ttlSeconds * 1_000, this.longestMs)
    return this.certificate(id, { notBefore, notAfter: Math.max(notBefore, now) + lifeMs }, refusal)
  }

  certificate(id: SpiffeId, dates: Pick<VerifiedChain, 'notBefore' | 'notAfter'>, refusal: Refusal): Answer {
    const isOwn = this.own.has(id)
    const [root] = this.rootsOf([this.signer])
    if (!root) throw new TypeError('the CA has no root')
    const roots = isOwn ? [root] : this.rootsOf([...new Set([...this.listed, this.signer])])
    const verified = { ...dates, ...chainOf(this.#random.below(SERIALS), root) }
    return {
      verified: { ...verified, clientRefusal: refusal(root.fingerprint) },
      offered: { roots, rejected: [], isWhole: true, validFrom: undefined },
      isOwn,
      key: new TrackedKey(id, this.#live),
      source: this.#random.chance(0.2) ? 'brought' : 'signed',
      hint: undefined,
      accepted: this.#random.chance(0.2) ? () => {} : undefined,
    }
  }

  #concerns(index: number): boolean {
    return ((this.mask >>> index) & 1) === 1
  }

  #modeOfNow(): Mode {
    return this.mode === 'changing' ? this.#random.pick(MODES) : this.mode
  }

  /** As a list of CAs whose first one is down. `deferring-alone`: the others are down, too; `deferring-badly`: whatever it is asked for, and until any time. */
  #deferral(mode: Mode, { replaces }: Request, now: number): CAError | undefined {
    if (mode === 'deferring-badly')
      return new CAError('bad-response', mode, { deferred: now + this.amount - this.#random.below(300_000) })
    if (mode !== 'deferring' && mode !== 'deferring-alone') return undefined
    const { notAfter = now, failingSince = now } = replaces ?? {}
    const since = Math.min(failingSince, now)
    const deferred = since + (notAfter - since) / 2
    if (deferred > now) return new CAError('unavailable', mode, { deferred })
    return mode === 'deferring' ? undefined : new CAError('unavailable', mode)
  }

  #failure(mode: Mode, ttlSeconds: number): CAError | undefined {
    const { amount } = this
    switch (mode) {
      case 'absent':
        return new CAError('unavailable', mode)
      case 'rate-limited':
        return new CAError('rate-limited', mode)
      case 'rate-limited-for':
        return new CAError('rate-limited', mode, { retryAfterMs: amount })
      case 'denied-for':
        return new CAError('denied', mode, { retryAfterMs: amount })
      case 'unauthenticated':
      case 'denied':
      case 'bad-response':
      case 'invalid-csr':
        return new CAError(mode, mode)
      case 'ttl-too-long':
        return ttlSeconds > 600 ? new CAError(mode, mode) : undefined
      case 'local-denied':
        return new CAError('denied', mode, { local: true })
      case 'local-rate-limited':
        return new CAError('rate-limited', mode, { local: true })
      case 'local-unavailable':
        return new CAError('unavailable', mode, { local: true })
      case 'good':
      case 'silent':
      case 'changing':
      case 'deferring':
      case 'deferring-alone':
      case 'deferring-badly':
      case 'early':
      case 'short':
        return undefined
    }
  }
}

/** Why clients would refuse a leaf under the root with this fingerprint. */
export type Refusal = (fingerprint: string) => string | undefined

let made = 0

/** No certificate is ever read: a text of one line stands for it. */
function chainOf(
  serial: number,
  { fingerprint }: Root,
): Pick<VerifiedChain, 'chainPem' | 'version' | 'rootFingerprint' | 'serialNumber'> {
  const version = `${made++}`
  const chainPem = '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n'
  return { chainPem, version, rootFingerprint: fingerprint, serialNumber: serialOf(serial) }
}
