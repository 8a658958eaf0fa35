/** One certificate from asking to judged: key, CSR, the CA's answer, all under one deadline. */
import { type CAClient, CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import type { CertificateVerifier, Expectation, VerifiedChain } from '../contract/certificate-verifier.ts'
import { wishText } from '../contract/certificate-wish.ts'
import type { KeyGenerator, KeyType, PrivateKeyFormat } from '../contract/key-generator.ts'
import type { KeyVault } from '../contract/key-vault.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { Root } from '../contract/trust-anchor.ts'
import type { Answer } from '../decide/event.ts'
import type { CARootList } from '../listing/ca-root-list.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Request } from '../state/identity.ts'
import type { Clock } from '../time/clock.ts'
import { after, untilAborted } from '../time/deadline.ts'
import type { BundleTable } from '../trust/bundle-table.ts'
import { type OfferedRoots, type RootReader, summarize } from '../trust/root-reader.ts'
import { isListOfText } from '../x509/pem.ts'
import { type PrivateKey, RequestKey, Ticket } from './request-key.ts'

/** The longest RSA key that Envoy takes has 13 kB as PEM. */
const MAX_PRIVATE_KEY_BYTES = 16_384
/** As in SPIRE. */
const MAX_HINT = 1_024

export interface FetchOptions {
  readonly ca: CAClient
  readonly keyGenerator: KeyGenerator
  readonly vault: KeyVault
  readonly keyType: KeyType
  readonly keyFormat: PrivateKeyFormat
  readonly pending: PendingRequests
  readonly verifier: CertificateVerifier
  readonly reader: RootReader
  /** Read, never changed. */
  readonly bundles: BundleTable
  /** Asks the CA for its list of roots. */
  readonly rootList: Pick<CARootList, 'refresh' | 'refreshAgain' | 'firstAsked'>
  readonly clock: Clock
  /** Deadline of the whole, milliseconds. */
  readonly timeoutMs: number
}

/**
 * Asks the CA once, and calls `answered` in the same turn of the event loop in which the answer was judged by the roots of
 * that turn. Rejects with a {@link CAError}, or with the reason of `controller` when that is aborted. Then no key is left
 * except a pending request's; a key in a late answer is wiped, too. A plugin that throws something else, never answers
 * or ignores its signal costs no more than the deadline.
 */
export async function fetch(
  options: FetchOptions,
  request: Request,
  controller: AbortController,
  answered: (answer: Answer) => void,
): Promise<void> {
  const { clock, timeoutMs, pending, keyGenerator } = options
  const { signal } = controller
  const { wish } = request
  const { id } = request.of
  using _deadline = after(clock, timeoutMs, () =>
    controller.abort(new CAError('timeout', `The CA did not answer for ${id} within ${timeoutMs} ms`)),
  )
  // A plugin runs next, and never inside the caller's turn.
  const before = await (pending.has(id) ? untilAborted(continued(pending, request), signal) : undefined)
  const type = wish.keyType ?? options.keyType
  const keyRequest = { type, identity: id, dnsNames: wish.dnsNames, format: options.keyFormat }
  const key = new RequestKey(options.vault, () => keyGenerator.generate(keyRequest, { signal }), before?.key)
  using ticket = new Ticket(pending, request, signal, key, before?.note)
  const answering = ask(options.ca, request, signal, key, ticket)
  let isTaken = false
  const take = (answer: Answer) => {
    isTaken = true
    answered(answer)
  }
  try {
    await untilAborted(judge(options, request, signal, answering, key, take), signal)
  } catch (error) {
    // The key belongs to the pending request now.
    if (isTaken) throw error
    key.wipe()
    void wipeBrought(answering)
    throw asCAError(error, signal, id)
  }
}

/** The request that waits for an approval, unless its CSR is for another wish. */
async function continued(pending: PendingRequests, { of, wish }: Request): Promise<PendingRequest | undefined> {
  const before = await pending.get(of.id)
  if (!before || before.wish === wishText(wish)) return before
  before.key.privateKeyPem.fill(0)
  pending.drop(of.id)
  return undefined
}

async function ask(
  ca: CAClient,
  { of, wish, ttlSeconds, tokenFile, connectWithinMs, replaces }: Request,
  signal: AbortSignal,
  key: RequestKey,
  ticket: Ticket,
): Promise<IssuedCertificate> {
  const { dnsNames } = wish
  const optional = {
    ...(dnsNames.length > 0 && { dnsNames }),
    ...(tokenFile !== undefined && { tokenFile }),
    ...(connectWithinMs !== undefined && { connectWithinMs }),
    ...(replaces && { replaces }),
  }
  return await ca.issue({ identity: of.id, ttlSeconds, ...optional, signal, csr: () => key.csr(), ticket })
}

/**
 * Judges by the trusted roots and the offered ones, and learns none of them. The signal is checked after each wait: the last
 * waiter may have gone.
 */
async function judge(
  options: FetchOptions,
  request: Request,
  signal: AbortSignal,
  answering: Promise<IssuedCertificate>,
  key: RequestKey,
  answered: (answer: Answer) => void,
): Promise<void> {
  const { id } = request.of
  const { reader, clock, bundles, rootList, pending } = options
  const answer = await answering
  signal.throwIfAborted()
  // Even after a bad answer: the same request would get the same one again.
  pending.drop(id)
  checkForm(answer, id)
  const privateKey = await key.privateKey(answer)
  const { roots = [] } = answer
  const now = clock.now()
  const read = reader.sameAsLast(roots, now) ?? (await reader.read(roots, now))
  const offered = { ...read, identity: id, isOwn: answer.rootsFor === 'identity' }
  let isListed = false
  while (true) {
    signal.throwIfAborted()
    const anchors = bundles.anchorsFor(offered)
    const areStill = () => areSame(anchors, bundles.anchorsFor(offered))
    let verified: VerifiedChain
    try {
      verified = await verify(options, request, answer, privateKey, anchors)
    } catch (error) {
      signal.throwIfAborted()
      // The CA may have changed its root since it was last asked for its list.
      if (!isListed) await rootList.refresh()
      isListed = true
      if (areStill()) throw withRejected(error, offered)
      continue
    }
    signal.throwIfAborted()
    // A root may have come or gone while another thread checked, and clients judge by the current roots. Many verdicts come
    // in one turn: with an `await` before `answered`, all would be checked before the first brings its roots.
    if (!areStill()) continue
    const source = answer.privateKey ? 'brought' : 'signed'
    const accepted = answer.accepted && (() => answer.accepted?.())
    answered({ verified, offered, key: privateKey.sealed, source, hint: answer.hint, accepted })
    return
  }
}

/** A plugin may answer anything. */
function checkForm(answer: IssuedCertificate, id: SpiffeId): void {
  const problem = problemOf(answer ?? {})
  if (problem === undefined) return
  throw new CAError(
    'bad-response',
    `The CA plugin gave an answer for ${id} that breaks its contract: ${problem}. Install a version of it that works.`,
  )
}

function problemOf({
  chain,
  roots = [],
  rootsFor = 'trust-domain',
  privateKey,
  hint = '',
}: Partial<IssuedCertificate>): string | undefined {
  if (!isListOfText(chain)) return 'chain is not a list of PEM certificates'
  if (!isListOfText(roots)) return 'roots is not a list of PEM certificates'
  if (rootsFor !== 'trust-domain' && rootsFor !== 'identity') return 'rootsFor is neither trust-domain nor identity'
  if (typeof hint !== 'string' || hint.length > MAX_HINT) return `hint is not a text of at most ${MAX_HINT} characters`
  if (privateKey === undefined) return undefined
  if (!(privateKey instanceof Uint8Array)) return 'privateKey is not a Uint8Array'
  if (privateKey.length <= MAX_PRIVATE_KEY_BYTES) return undefined
  return `privateKey has ${privateKey.length} bytes, more than ${MAX_PRIVATE_KEY_BYTES}`
}

async function verify(
  { verifier, clock }: FetchOptions,
  { of, wish: { dnsNames } }: Request,
  { chain }: IssuedCertificate,
  privateKey: PrivateKey,
  anchors: readonly Root[],
): Promise<VerifiedChain> {
  return await withKey(privateKey, key => {
    const names = { identity: of.id, ...('publicKeyDer' in key && { dnsNames }) }
    const expected = { ...names, key, anchors: anchors.map(a => a.certificate), now: clock.now() }
    return verifier.verifyLater ? verifier.verifyLater(chain, expected) : verifier.verify(chain, expected)
  })
}

function areSame(some: readonly Root[], others: readonly Root[]): boolean {
  return (
    some.length === others.length && some.every(({ fingerprint }, index) => fingerprint === others[index]?.fingerprint)
  )
}

/** A key that was brought is open only while it is compared. */
function withKey<T>({ sealed, publicKeyDer }: PrivateKey, verify: (key: Expectation['key']) => T): T {
  return publicKeyDer ? verify({ publicKeyDer }) : sealed.open(privateKeyPem => verify({ privateKeyPem }))
}

/** The chain may lead to a root that was left out. */
function withRejected(error: unknown, { rejected }: OfferedRoots): unknown {
  if (!(error instanceof CAError) || rejected.length === 0) return error
  return new CAError(error.code, `${error.message}. Roots that came with it were left out: ${summarize(rejected)}`, {
    cause: error,
  })
}

/** Wipes the key of an answer that nobody takes, whenever it comes. Never rejects. */
async function wipeBrought(answering: Promise<IssuedCertificate>): Promise<void> {
  try {
    const { privateKey } = await answering
    if (privateKey instanceof Uint8Array) privateKey.fill(0)
  } catch {} // there is no answer, or none with a key
}

/** A plugin may throw anything: only what can be shown is passed on. */
function asCAError(error: unknown, signal: AbortSignal, id: SpiffeId): unknown {
  return signal.aborted && error === signal.reason ? error : asShownCAError(error, `The CA plugin failed for ${id}: `)
}
