/** Roots enter their bundles: from the CA's list, with its answers, from the operator, from the store. */

import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { MAX_TRUST_DOMAINS } from '../trust/bundle-table.ts'
import { type ReadRoots, type RootReader, summarize } from '../trust/root-reader.ts'
import type { Learned, NamedIn, TrustBundle } from '../trust/trust-bundle.ts'
import type { Crl } from '../x509/crl.ts'
import { announce, announceAgain, reportHeld } from './announcement.ts'
import { closeBundle, phaseChanged, planRemoval, publish, removed, storeRoots } from './bundle.ts'
import { crlChanged } from './revocation.ts'
import { rootsMoved, rootTrusted } from './rollout.ts'
import { type Judged, report, type Step } from './step.ts'

/** Takes the roots that the previous process stored, each in its phase. */
export function restoreRoots(step: Step, stored: readonly StoredRoot[], read: RootReader['readOne']): void {
  const { bundles, trustDomain } = step.state
  const bundle = bundles.open(trustDomain)
  for (const reason of bundle?.restore(stored, read, step.now) ?? [])
    report(step, `spiffe://${trustDomain}`, { kind: 'not-restored', reason })
  if (!bundle?.secret) return
  bundles.put(bundle)
  publish(step, bundle)
  for (const { pem, isAnnouncing, isHeld } of stored) {
    const root = isAnnouncing || isHeld ? read(pem) : undefined
    const present = typeof root === 'object' ? bundle.roots.get(root.fingerprint) : undefined
    if (present && isAnnouncing) announceAgain(step, bundle, present)
    if (present && isHeld) reportHeld(step, bundle, present)
  }
  planRemoval(step, bundle)
  revokeListed(step, bundle)
}

/** Takes the roots that the CA has named. */
export function learn(step: Step, trustDomain: string, { roots, rejected, isWhole }: ReadRoots, from: NamedIn): void {
  const { state, policy, now } = step
  const bundle = state.bundles.open(trustDomain)
  const isFirst = bundle?.roots.hasNoneOfTheCA ?? true
  const learned = bundle?.learn(roots, from, isWhole, now) ?? NO_PLACE
  reportRejected(step, `spiffe://${trustDomain}`, [...rejected, ...learned.rejected])
  if (!bundle) return
  if (learned.added.length > 0) put(step, bundle, isFirst ? [] : learned.added)
  const [givenUp, revoked] = policy.revokesMissingRoots ? [[], learned.givenUp] : [learned.givenUp, []]
  if (revoked.length > 0) removed(step, bundle, bundle.revoke(revoked), 'the CA has revoked it')
  if (learned.added.length > 0 || learned.adopted.length > 0 || learned.givenUp.length > 0) {
    storeRoots(step, bundle)
    for (const { fingerprint } of learned.adopted)
      if (!isFirst && bundle.roots.isTrusted(fingerprint)) rootTrusted(step, bundle, fingerprint)
    rootsMoved(step, bundle, { added: [...learned.added, ...learned.adopted], givenUp, revoked })
    planRemoval(step, bundle)
  } else if (learned.isRenamed) phaseChanged(step, bundle)
}

/** Takes all roots that the operator lists for a trust domain (`undefined`: no list); leaves follow them once the CA names one. */
export function configureRoots(step: Step, trustDomain: string, roots: readonly Root[] | undefined): void {
  const { bundles } = step.state
  const bundle = bundles.open(trustDomain)
  const isFirst = bundle?.roots.hasNoneOfTheCA ?? true
  const learned = bundle?.configure(roots ?? [], step.now) ?? NO_PLACE
  const { length: count } = learned.rejected
  if (count > 0) {
    const reason = summarize(learned.rejected)
    report(step, `spiffe://${trustDomain}`, { kind: 'roots-rejected', source: 'configuration', count, reason })
  }
  if (!bundle) return
  if (!roots && bundle.roots.isUnneeded) {
    // No source lists roots of this foreign trust domain any longer.
    closeBundle(step, bundle)
    return
  }
  if (learned.added.length > 0) put(step, bundle, isFirst ? [] : learned.added)
  if (learned.givenUp.length === 0) return
  rootsMoved(step, bundle, { added: [], givenUp: learned.givenUp, revoked: [] })
  planRemoval(step, bundle)
}

/**
 * Takes in the roots of an answer that has passed every check, the one that its chain ends under first. All are taken while
 * there is room: during a rotation they are old ∪ new.
 */
export function learnOffered(step: Step, id: SpiffeId, { verified, offered, isOwn }: Judged): void {
  const { rootFingerprint, notAfter } = verified
  const isNeeded = ({ fingerprint }: Root) => fingerprint === rootFingerprint
  const roots = offered.roots.toSorted((a, b) => Number(isNeeded(b)) - Number(isNeeded(a)))
  if (isOwn) learnOwn(step, id, { ...offered, roots })
  else if (roots.length > 0 || offered.rejected.length > 0)
    learn(step, trustDomainOf(id), { ...offered, roots }, { kind: 'answer', notAfter })
}

/** The identity is no longer kept: its own roots go with it. */
export function forgetOwnRoots(step: Step, id: SpiffeId): void {
  const bundle = step.state.bundles.own(id)
  if (bundle) closeBundle(step, bundle)
}

/** The revocation lists of a trust domain have changed. */
export function useCrls(step: Step, trustDomain: string, crls: readonly Crl[], source: string): void {
  step.state.crls.of(trustDomain).replace(crls, source)
  const bundle = step.state.bundles.get(trustDomain)
  if (bundle) {
    bundle.refresh()
    publish(step, bundle)
    revokeListed(step, bundle)
  }
  crlChanged(step, trustDomain)
}

/** Takes roots that count for one identity. The list is complete: its file alone decides which roots there are. */
function learnOwn(step: Step, id: SpiffeId, { roots, rejected, isWhole }: ReadRoots): void {
  const bundle = step.state.bundles.openOwn(id)
  const isFirst = bundle.roots.hasNoneOfTheCA
  const learned = bundle.learn(roots, { kind: 'list' }, isWhole, step.now)
  reportRejected(step, id, [...rejected, ...learned.rejected])
  if (learned.added.length > 0) {
    if (!isFirst) announce(step, bundle, learned.added)
    publish(step, bundle)
  }
  if (learned.added.length > 0 || learned.givenUp.length > 0) planRemoval(step, bundle)
}

/** `announced`: its roots that clients are to learn before leaves under them are served. */
function put(step: Step, bundle: TrustBundle, announced: readonly TrustAnchor[]): void {
  step.state.bundles.put(bundle)
  announce(step, bundle, announced)
  publish(step, bundle)
  revokeListed(step, bundle)
}

/** Revokes the roots of the bundle that a revocation list of their issuer names. */
function revokeListed(step: Step, bundle: TrustBundle): void {
  const revoked = bundle.revokedByLists().filter(fingerprint => !bundle.isRevoked(fingerprint))
  if (revoked.length === 0) return
  removed(step, bundle, bundle.revoke(revoked), 'a revocation list of its issuer names it')
  phaseChanged(step, bundle)
  rootsMoved(step, bundle, { added: [], givenUp: [], revoked })
}

function reportRejected(step: Step, name: string, reasons: readonly string[]): void {
  if (reasons.length === 0) return
  report(step, name, {
    kind: 'ca-error',
    code: 'bad-response',
    message: `Roots were left out: ${summarize(reasons)}`,
  })
}

const NO_PLACE: Learned = {
  isRenamed: false,
  added: [],
  adopted: [],
  givenUp: [],
  rejected: [`roots of ${MAX_TRUST_DOMAINS} trust domains are held already`],
}
