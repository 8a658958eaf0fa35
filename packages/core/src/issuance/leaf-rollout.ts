/** When leaves under a new root are served: after their root is known, and then by all in turn. */

import type { TrustAnchor } from '../contract/trust-anchor.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import type { ManagedIdentity } from '../identity/managed-identity.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import type { TrustBundle } from '../trust/trust-bundle.ts'
import type { TrustStore } from '../trust/trust-store.ts'
import type { Preflight } from './preflight.ts'
import { turnTime } from './renewal-time.ts'

export interface LeafRolloutOptions {
  readonly clock: Clock
  readonly trust: TrustStore
  readonly identities: ReadonlyMap<SpiffeId, ManagedIdentity>
  /** Whether somebody streams it. */
  readonly isUsed: (identity: SpiffeId) => boolean
  readonly preflight: Preflight
  /** Brings a renewal that is planned forward to `due`, milliseconds since the epoch. */
  readonly bringForward: (managed: ManagedIdentity, due: number) => void
}

export class LeafRollout {
  readonly #options: LeafRolloutOptions

  constructor(options: LeafRolloutOptions) {
    this.#options = options
  }

  /** Whether `issued` may be served in the place of the one in use, if one is worth keeping. */
  admit(managed: ManagedIdentity, { root }: Issued): boolean {
    const inUse = managed.worthKeeping
    if (!inUse || this.#isRevoked(managed, inUse.root)) return true
    return this.#options.trust.mayServe(managed.identity, root.fingerprint)
  }

  /** Call after `issued` replaced `before`: the first leaf under a newer root shows that the CA signs under it. */
  served({ identity }: ManagedIdentity, { root }: Issued, before: TrustAnchor): void {
    if (root.learnedAt <= before.learnedAt) return
    const bundle = this.#options.trust.bundles.get(trustDomainOf(identity))
    if (bundle?.anchor(root.fingerprint)) this.#follow(bundle, root.fingerprint)
  }

  /** Leaves under roots that were revoked are replaced at once: by one that waits for its own root, or a new one. */
  onRevoked(bundle: TrustBundle, fingerprints: readonly string[]): void {
    if (fingerprints.length === 0) return
    const isUnder = (issued: Issued | undefined) => issued && fingerprints.includes(issued.root.fingerprint)
    const all = this.#inTurn(bundle, ({ served }) => isUnder(served.current) || isUnder(served.newest) || false)
    for (const managed of all) {
      const { waiting } = managed.served
      if (waiting && !isUnder(waiting)) {
        if (this.admit(managed, waiting)) managed.served.hasten(waiting.secret.notBefore)
      } else if (managed.activity.kind === 'waiting') this.#options.bringForward(managed, this.#options.clock.now())
    }
  }

  /** Leaves under roots that were given up are replaced. */
  onGivenUp(bundle: TrustBundle, fingerprints: readonly string[]): void {
    if (fingerprints.length > 0) this.#replaceInTurn(bundle, root => fingerprints.includes(root.fingerprint))
  }

  /**
   * Leaves under this root are allowed from now on: waiting ones are served. If none waits, the first identity asks whether
   * the CA signs under it yet.
   */
  onTrusted(bundle: TrustBundle, fingerprint: string): void {
    // The CA has changed its mind meanwhile.
    if (bundle.isGivenUp(fingerprint)) return
    const waiting = this.#inTurn(bundle, ({ served }) => served.waiting?.root.fingerprint === fingerprint)
    const mayBeServed = this.#serveWaiting(waiting)
    // A root of one identity comes with its certificate; one that the operator lists says nothing of the CA.
    if (bundle.owner || !bundle.isNamed(fingerprint)) return
    if (waiting.length > 0) {
      if (mayBeServed) this.#follow(bundle, fingerprint)
    } else {
      const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
      const [first] = this.#replaceable(bundle, root => root.learnedAt < learnedAt)
      if (first) this.#options.bringForward(first, this.#options.clock.now())
    }
    this.#replaceInTurn(bundle, root => bundle.isGivenUp(root.fingerprint))
  }

  /** Whether nobody trusts it any longer: then the certificate in use is worth nothing. */
  #isRevoked({ identity }: ManagedIdentity, { fingerprint }: TrustAnchor): boolean {
    return this.#options.trust.bundles.of(identity).every(bundle => !bundle.anchor(fingerprint))
  }

  /**
   * The roots have changed while these waited, so each kind is checked again: one that clients would refuse waits until the one
   * in use is about to end. `false` if none may be served.
   */
  #serveWaiting(all: readonly ManagedIdentity[]): boolean {
    const { preflight } = this.#options
    let some = false
    for (const managed of all) {
      const { waiting } = managed.served
      const refusal = waiting && preflight.refusalOf(waiting, managed.identity)
      if (!waiting || (refusal !== undefined && !preflight.allows(managed, refusal))) continue
      some = true
      if (this.admit(managed, waiting)) managed.served.hasten(waiting.secret.notBefore)
    }
    return some
  }

  /** Once for each root: a CA that signs under two in turns would otherwise have everything renewed again and again. */
  #follow(bundle: TrustBundle, fingerprint: string): void {
    const learnedAt = bundle.anchor(fingerprint)?.learnedAt ?? 0
    if (this.#options.trust.follow(bundle, fingerprint)) this.#replaceInTurn(bundle, root => root.learnedAt < learnedAt)
  }

  /** Brings the renewals of leaves forward whose root `isOld`, spread out. */
  #replaceInTurn(bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): void {
    const all = this.#replaceable(bundle, isOld)
    const now = this.#options.clock.now()
    for (const [index, managed] of all.entries()) {
      const notAfter = managed.served.current?.secret.notAfter ?? now
      this.#options.bringForward(managed, turnTime({ now, notAfter }, index / all.length))
    }
  }

  #replaceable(bundle: TrustBundle, isOld: (root: TrustAnchor) => boolean): readonly ManagedIdentity[] {
    return this.#inTurn(bundle, ({ served, activity }) => {
      const root = served.newest?.root
      return activity.kind === 'waiting' && root !== undefined && isOld(root)
    })
  }

  /** The identities whose leaves are verified with this bundle: streamed ones first, each kind by what is left. */
  #inTurn(bundle: TrustBundle, matches: (managed: ManagedIdentity) => boolean): readonly ManagedIdentity[] {
    const found = this.#membersOf(bundle).flatMap(managed => {
      if (!matches(managed)) return []
      const notAfter = managed.served.newest?.secret.notAfter ?? 0
      return [{ managed, notAfter, isUsed: this.#options.isUsed(managed.identity) }]
    })
    found.sort((a, b) => Number(b.isUsed) - Number(a.isUsed) || a.notAfter - b.notAfter)
    return found.map(({ managed }) => managed)
  }

  #membersOf({ owner, trustDomain }: TrustBundle): readonly ManagedIdentity[] {
    const { identities, trust } = this.#options
    const own = owner && identities.get(owner)
    if (owner) return own ? [own] : []
    return [...identities.values()].filter(({ identity, served }) => {
      const root = served.newest?.root.fingerprint ?? ''
      return trustDomainOf(identity) === trustDomain && !trust.bundles.own(identity)?.anchor(root)
    })
  }
}
