/** A CA's answer, judged: its form, its roots, its chain and its key. */
import { CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import type { CertificateVerifier, Expectation, VerifiedChain } from '../contract/certificate-verifier.ts'
import type { SealedKey } from '../contract/key-vault.ts'
import type { PendingRequests } from '../contract/store.ts'
import type { Root } from '../contract/trust-anchor.ts'
import type { Answer } from '../decide/step.ts'
import type { CARootList } from '../listing/ca-root-list.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Request } from '../state/identity.ts'
import type { Clock } from '../time/clock.ts'
import type { BundleTable } from '../trust/bundle-table.ts'
import { type ReadRoots, type RootReader, summarize } from '../trust/root-reader.ts'
import { isListOfText } from '../x509/pem.ts'

/** The longest RSA key that Envoy takes has 13 kB as PEM. */
const MAX_PRIVATE_KEY_BYTES = 16_384
/** As in SPIRE. */
const MAX_HINT = 1_024

export interface JudgeOptions {
  readonly pending: PendingRequests
  readonly verifier: CertificateVerifier
  readonly reader: RootReader
  /** Read, never changed. */
  readonly bundles: BundleTable
  /** Asks the CA for its list of roots. */
  readonly rootList: Pick<CARootList, 'refresh' | 'refreshAgain' | 'firstAsked'>
  readonly clock: Clock
}

/** A key, and the public key to compare the certificate's with. */
export interface PrivateKey {
  readonly sealed: SealedKey
  /** Absent for a key that a source brought. */
  readonly publicKeyDer?: Uint8Array
}

/**
 * Judges by the trusted roots and the offered ones, and learns none of them. The signal is checked after each wait: the last
 * waiter may have gone.
 */
export async function judge(
  options: JudgeOptions,
  request: Request,
  signal: AbortSignal,
  answering: Promise<IssuedCertificate>,
  keyOf: (answer: IssuedCertificate) => Promise<PrivateKey>,
  answered: (answer: Answer) => void,
): Promise<void> {
  const { id } = request.of
  const { reader, clock, bundles, rootList, pending } = options
  const answer = await answering
  signal.throwIfAborted()
  // Even after a bad answer: the same request would get the same one again.
  pending.drop(id)
  checkForm(answer, id)
  const privateKey = await keyOf(answer)
  const { roots = [] } = answer
  const now = clock.now()
  const offered = reader.sameAsLast(roots, now) ?? (await reader.read(roots, now))
  let isListed = false
  while (true) {
    signal.throwIfAborted()
    const anchors = bundles.anchorsFor(id, offered.roots)
    const areStill = () => areSame(anchors, bundles.anchorsFor(id, offered.roots))
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
    const isOwn = answer.rootsFor === 'identity'
    answered({ verified, offered, isOwn, key: privateKey.sealed, source, hint: answer.hint, accepted })
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
  { verifier, clock }: JudgeOptions,
  { of, wish: { dnsNames } }: Request,
  { chain }: IssuedCertificate,
  privateKey: PrivateKey,
  anchors: readonly Root[],
): Promise<VerifiedChain> {
  const { sealed, publicKeyDer } = privateKey
  const facts = { identity: of.id, anchors: anchors.map(a => a.certificate), now: clock.now() }
  const check = (expected: Expectation) =>
    verifier.verifyLater ? verifier.verifyLater(chain, expected) : verifier.verify(chain, expected)
  if (publicKeyDer) return await check({ ...facts, key: { publicKeyDer }, dnsNames })
  // A key that was brought is open only while it is compared.
  return await sealed.open(privateKeyPem => check({ ...facts, key: { privateKeyPem } }))
}

function areSame(some: readonly Root[], others: readonly Root[]): boolean {
  return (
    some.length === others.length && some.every(({ fingerprint }, index) => fingerprint === others[index]?.fingerprint)
  )
}

/** The chain may lead to a root that was left out. */
function withRejected(error: unknown, { rejected }: ReadRoots): unknown {
  if (!(error instanceof CAError) || rejected.length === 0) return error
  return new CAError(error.code, `${error.message}. Roots that came with it were left out: ${summarize(rejected)}`, {
    cause: error,
  })
}
