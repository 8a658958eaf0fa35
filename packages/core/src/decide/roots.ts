/** Roots come into their bundles: those that the CA lists, that come with its answers, that the operator lists, that were stored. */

import { CAError } from '../contract/ca-client.ts'
import type { Root, StoredRoot, TrustAnchor } from '../contract/trust-anchor.ts'
import { type SpiffeId, trustDomainOf } from '../spiffe/spiffe-id.ts'
import { MAX_TRUST_DOMAINS } from '../trust/bundle-table.ts'
import type { OfferedRoots } from '../trust/offered-roots.ts'
import { type ReadRoots, type RootReader, summarize } from '../trust/root-reader.ts'
import type { Learned, LearnOptions, TrustBundle } from '../trust/trust-bundle.ts'
import type { VerifiedChain } from '../x509/ca-answer-verifier.ts'
import type { Crl } from '../x509/crl.ts'
import { announce, announceAgain, reportHeld } from './announcement.ts'
import { closeBundle, phaseChanged, planRemoval, publish, removed, storeRoots } from './bundle.ts'
import { crlChanged } from './revocation.ts'
import { rootsMoved, rootTrusted } from './rollout.ts'
import { report, type Turn } from './turn.ts'

type Read = Pick<ReadRoots, 'roots' | 'rejected' | 'isWhole'>

/** Takes the roots that the previous process stored, each in its phase. */
export function restoreRoots(turn: Turn, stored: readonly StoredRoot[], read: RootReader['readOne']): void {
  const { bundles, trustDomain } = turn.state
  const bundle = bundles.open(trustDomain)
  for (const reason of bundle?.restore(stored, read, turn.now) ?? [])
    report(turn, `spiffe://${trustDomain}`, { kind: 'not-restored', reason })
  if (!bundle?.secret) return
  bundles.put(bundle)
  publish(turn, bundle)
  for (const { pem, isAnnouncing, isHeld } of stored) {
    const root = isAnnouncing || isHeld ? read(pem) : undefined
    const present = typeof root === 'object' ? bundle.root(root.fingerprint) : undefined
    if (present && isAnnouncing) announceAgain(turn, bundle, present)
    if (present && isHeld) reportHeld(turn, bundle, present)
  }
  planRemoval(turn, bundle)
  revokeListed(turn, bundle)
}

/** Takes the roots that the CA has named. */
export function learn(
  turn: Turn,
  trustDomain: string,
  { roots, rejected, isWhole }: Read,
  from: LearnOptions['from'],
): void {
  const { state, policy, now } = turn
  const bundle = state.bundles.open(trustDomain)
  const isFirst = bundle?.hasNoneOfTheCA ?? true
  const learned = bundle?.learn(roots, { from, complete: isWhole, now }) ?? NO_PLACE
  reportRejected(turn, `spiffe://${trustDomain}`, [...rejected, ...learned.rejected])
  if (!bundle) return
  if (learned.added.length > 0) put(turn, bundle, isFirst ? [] : learned.added)
  const [givenUp, revoked] = policy.revokesMissingRoots ? [[], learned.givenUp] : [learned.givenUp, []]
  removed(turn, bundle, bundle.revoke(revoked), 'the CA has revoked it')
  if (learned.added.length > 0 || learned.adopted.length > 0 || learned.givenUp.length > 0) {
    storeRoots(turn, bundle)
    for (const { fingerprint } of learned.adopted)
      if (!isFirst && bundle.isTrusted(fingerprint)) rootTrusted(turn, bundle, fingerprint)
    rootsMoved(turn, bundle, { added: [...learned.added, ...learned.adopted], givenUp, revoked })
    planRemoval(turn, bundle)
  } else if (learned.isRenamed) phaseChanged(turn, bundle)
}

/** Takes all roots that the operator lists for a trust domain (`undefined`: no list); leaves follow them once the CA names one. */
export function configureRoots(turn: Turn, trustDomain: string, roots: readonly Root[] | undefined): void {
  const { bundles } = turn.state
  const bundle = bundles.open(trustDomain)
  const isFirst = bundle?.hasNoneOfTheCA ?? true
  const learned = bundle?.configure(roots ?? [], turn.now) ?? NO_PLACE
  const { length: count } = learned.rejected
  if (count > 0) {
    const reason = summarize(learned.rejected)
    report(turn, `spiffe://${trustDomain}`, { kind: 'roots-rejected', source: 'configuration', count, reason })
  }
  if (!bundle) return
  if (!roots && bundle.isUnneeded) {
    // Nobody lists roots of the trust domain any longer, which is not the agent's own.
    if (bundles.delete(bundle)) closeBundle(turn, bundle)
    return
  }
  if (learned.added.length > 0) put(turn, bundle, isFirst ? [] : learned.added)
  if (learned.givenUp.length === 0) return
  rootsMoved(turn, bundle, { added: [], givenUp: learned.givenUp, revoked: [] })
  planRemoval(turn, bundle)
}

/**
 * Takes in the roots of an answer that has passed every check, and gives the root that its chain ends under. All are taken
 * while there is room: during a rotation they are old ∪ new.
 */
export function accept(
  turn: Turn,
  { identity, isOwn, roots, ...read }: OfferedRoots,
  { rootFingerprint, notAfter }: Pick<VerifiedChain, 'rootFingerprint' | 'notAfter'>,
): { readonly bundle: TrustBundle; readonly root: TrustAnchor } | CAError {
  const { bundles, crls } = turn.state
  const isNeeded = ({ fingerprint }: Root) => fingerprint === rootFingerprint
  const sorted = roots.length > 1 ? [...roots.filter(isNeeded), ...roots.filter(root => !isNeeded(root))] : roots
  const offered = { ...read, roots: sorted }
  if (isOwn) learnOwn(turn, identity, offered)
  else if (roots.length > 0 || read.rejected.length > 0)
    learn(turn, trustDomainOf(identity), offered, { kind: 'answer', notAfter })
  const bundle = bundles.holderOf(identity, rootFingerprint)
  const root = bundle?.anchor(rootFingerprint)
  if (bundle && root) return { bundle, root }
  const isRevoked = crls.of(trustDomainOf(identity)).revoked(roots).some(isNeeded)
  return new CAError('bad-response', `The root of ${identity} is not trusted: ${isRevoked ? REVOKED : NO_ROOM}`)
}

/** The identity is no longer held: its own roots go with it. */
export function forgetOwnRoots(turn: Turn, id: SpiffeId): void {
  const bundle = turn.state.bundles.forgetOwn(id)
  if (bundle) closeBundle(turn, bundle)
}

/** The revocation lists of a trust domain have changed. */
export function useCrls(turn: Turn, trustDomain: string, crls: readonly Crl[], source: string): void {
  turn.state.crls.of(trustDomain).replace(crls, source)
  const bundle = turn.state.bundles.get(trustDomain)
  if (bundle) {
    bundle.refresh()
    publish(turn, bundle)
    revokeListed(turn, bundle)
  }
  crlChanged(turn, trustDomain)
}

/** Takes roots that count for one identity. The list is whole: the file that it is from says which roots there are. */
function learnOwn(turn: Turn, id: SpiffeId, { roots, rejected, isWhole }: Read): void {
  const bundle = turn.state.bundles.openOwn(id)
  const isFirst = bundle.hasNoneOfTheCA
  const learned = bundle.learn(roots, { from: { kind: 'list' }, complete: isWhole, now: turn.now })
  reportRejected(turn, id, [...rejected, ...learned.rejected])
  if (learned.added.length > 0) {
    if (!isFirst) announce(turn, bundle, learned.added)
    publish(turn, bundle)
  }
  if (learned.added.length > 0 || learned.givenUp.length > 0) planRemoval(turn, bundle)
}

/** `announced`: its roots that clients are to learn before leaves under them are served. */
function put(turn: Turn, bundle: TrustBundle, announced: readonly TrustAnchor[]): void {
  turn.state.bundles.put(bundle)
  announce(turn, bundle, announced)
  publish(turn, bundle)
  revokeListed(turn, bundle)
}

/** Revokes the roots of the bundle that a revocation list of their issuer names. */
function revokeListed(turn: Turn, bundle: TrustBundle): void {
  const revoked = bundle.revokedByLists().filter(fingerprint => !bundle.isRevoked(fingerprint))
  if (revoked.length === 0) return
  removed(turn, bundle, bundle.revoke(revoked), 'a revocation list of its issuer names it')
  phaseChanged(turn, bundle)
  rootsMoved(turn, bundle, { added: [], givenUp: [], revoked })
}

function reportRejected(turn: Turn, name: string, reasons: readonly string[]): void {
  if (reasons.length === 0) return
  report(turn, name, {
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

const REVOKED =
  'a revocation list of its issuer names it. Have the CA sign under another root, or take it off the list.'
const NO_ROOM =
  'there is no room for it beside those that are, or it was removed meanwhile. Drop those that nobody needs: livery trust drop.'
