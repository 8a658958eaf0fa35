/** One certificate from asking to checked: key, CSR, the CA's answer, all under one deadline. */

import { hash } from 'node:crypto'
import { type CAClient, CAError, type IssuedCertificate } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import type { SealedKey } from '../contract/key-vault.ts'
import type { PendingRequests } from '../contract/store.ts'
import type { Root } from '../contract/trust-anchor.ts'
import type { Issued } from '../identity/issued-certificate.ts'
import { CertificateSecret } from '../identity/secret-item.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { after } from '../time/deadline.ts'
import { untilAborted } from '../time/until-aborted.ts'
import { summarize } from '../trust/root-reader.ts'
import type { AcceptedRoot, OfferedRoots, TrustStore } from '../trust/trust-store.ts'
import type { CertificateVerifier, Expectation, VerifiedChain } from '../x509/ca-answer-verifier.ts'
import { isListOfText } from '../x509/pem.ts'
import { preflightFailed } from './preflight.ts'
import { type PrivateKey, RequestKey, type RequestKeyOptions } from './request-key.ts'
import { Ticket } from './request-ticket.ts'
import { revokedAnswer } from './revoked-certificates.ts'

/** The longest RSA key that Envoy takes has 13 kB as PEM. */
const MAX_PRIVATE_KEY_BYTES = 16_384
/** As in SPIRE. */
const MAX_HINT = 1_024

export interface IssuanceOptions extends RequestKeyOptions {
  readonly ca: CAClient
  readonly pending: PendingRequests
  readonly verifier: CertificateVerifier
  readonly clock: Clock
  readonly timeoutMs: number
}

export interface IssuanceRequest {
  readonly identity: SpiffeId
  /** The lifetime to ask for. */
  readonly ttlSeconds: number
  readonly tokenFile?: string
  readonly connectWithinMs: number | undefined
  /** See {@link Issued.phase}. */
  readonly phase: number
  readonly trustStore: TrustStore
  readonly controller: AbortController
  /** Whether a certificate that clients would refuse for `reason` is served all the same. */
  readonly servesRefused: (reason: string) => boolean
}

/**
 * Asks the CA once. Rejects with a {@link CAError}, or with the signal's reason when aborted. Then no key is left but
 * that of a pending request; a key in a late answer is wiped, too. A plugin that throws something else, never answers
 * or ignores its signal costs no more than the deadline.
 */
export async function issue(options: IssuanceOptions, request: IssuanceRequest): Promise<Issued> {
  const { signal } = request.controller
  using _deadline = after(options.clock, options.timeoutMs, () =>
    request.controller.abort(
      new CAError('timeout', `The CA did not answer for ${request.identity} within ${options.timeoutMs} ms`),
    ),
  )
  const isPending = options.pending.has(request.identity)
  // Never inside the caller's turn: a plugin runs next.
  const pending = await (isPending ? untilAborted(options.pending.get(request.identity), signal) : undefined)
  const key = new RequestKey(options, request.identity, signal, pending?.key)
  using ticket = new Ticket(options.pending, request, key, pending)
  const answering = ask(options, request, key, ticket)
  try {
    const answer = await untilAborted(answering, signal)
    // Whatever it is worth: the same request would have the same answer again.
    options.pending.drop(request.identity)
    checkForm(answer, request.identity)
    const privateKey = await key.privateKey(answer)
    return await verify(options, request, answer, privateKey, (verified, offered) => {
      signal.throwIfAborted()
      const revocation = request.trustStore.revocationOf(offered, verified)
      if (revocation !== undefined) throw revokedAnswer(request.identity, revocation)
      const { clientRefusal } = verified
      if (clientRefusal !== undefined && !request.servesRefused(clientRefusal))
        throw preflightFailed(request.identity, clientRefusal)
      const accepted = request.trustStore.accept(offered, verified)
      answer.accepted?.()
      return toIssued(request.trustStore, verified, accepted, {
        identity: request.identity,
        privateKey: privateKey.sealed,
        source: answer.privateKey ? 'brought' : 'signed',
        receivedAt: options.clock.now(),
        phase: request.phase,
        ...(answer.hint !== undefined && { hint: answer.hint }),
      })
    })
  } catch (error) {
    key.wipe()
    void wipeBrought(answering)
    throw asCAError(error, signal, request.identity)
  }
}

async function ask(
  { ca }: IssuanceOptions,
  { identity, ttlSeconds, tokenFile, connectWithinMs, controller: { signal } }: IssuanceRequest,
  key: RequestKey,
  ticket: Ticket,
): Promise<IssuedCertificate> {
  const optional = {
    ...(tokenFile !== undefined && { tokenFile }),
    ...(connectWithinMs !== undefined && { connectWithinMs }),
  }
  return await ca.issue({ identity, ttlSeconds, ...optional, signal, csr: () => key.csr(), ticket })
}

/** A plugin may answer anything. */
function checkForm(answer: IssuedCertificate, identity: SpiffeId): void {
  const problem = problemOf(answer ?? {})
  if (problem === undefined) return
  throw new CAError(
    'bad-response',
    `The CA plugin gave an answer for ${identity} that breaks its contract: ${problem}. Install a version of it that works.`,
  )
}

function problemOf({
  chain,
  roots = [],
  rootsFor = 'trust-domain',
  privateKey = new Uint8Array(),
  hint = '',
}: Partial<IssuedCertificate>): string | undefined {
  if (!isListOfText(chain)) return 'chain is not a list of PEM certificates'
  if (!isListOfText(roots)) return 'roots is not a list of PEM certificates'
  if (rootsFor !== 'trust-domain' && rootsFor !== 'identity') return 'rootsFor is neither trust-domain nor identity'
  if (typeof hint !== 'string' || hint.length > MAX_HINT) return `hint is not a text of at most ${MAX_HINT} characters`
  if (!(privateKey instanceof Uint8Array)) return 'privateKey is not a Uint8Array'
  if (privateKey.length <= MAX_PRIVATE_KEY_BYTES) return undefined
  return `privateKey has ${privateKey.length} bytes, more than ${MAX_PRIVATE_KEY_BYTES}`
}

/** Nothing is learned but by `accept`: the roots of an answer that is refused were never trusted. */
async function verify(
  options: IssuanceOptions,
  request: IssuanceRequest,
  answer: IssuedCertificate,
  privateKey: PrivateKey,
  accept: (verified: VerifiedChain, offered: OfferedRoots) => Issued,
): Promise<Issued> {
  const {
    identity,
    trustStore,
    controller: { signal },
  } = request
  const offered =
    trustStore.knownOffered(identity, answer) ?? (await untilAborted(trustStore.readOffered(identity, answer), signal))
  let isListed = false
  while (true) {
    const anchors = trustStore.anchorsFor(offered)
    const areStill = () => areSame(anchors, trustStore.anchorsFor(offered))
    let verified: VerifiedChain
    try {
      verified = await verifyAgainst(anchors, options, request, answer, privateKey)
    } catch (error) {
      signal.throwIfAborted()
      // The CA may have changed its root since it was last asked for its list.
      if (!isListed) await untilAborted(trustStore.refresh(), signal)
      isListed = true
      if (areStill()) throw withRejected(error, offered)
      continue
    }
    // A root may have come or gone while another thread checked, and clients judge by those of now. Verdicts come many in
    // one turn: with an `await` before `accept`, all of them would have looked before the first brings its roots.
    if (areStill()) return accept(verified, offered)
  }
}

async function verifyAgainst(
  anchors: readonly Root[],
  { verifier, clock }: IssuanceOptions,
  { identity, controller: { signal } }: IssuanceRequest,
  { chain }: IssuedCertificate,
  privateKey: PrivateKey,
): Promise<VerifiedChain> {
  return await withKey(privateKey, key => {
    const expected = { identity, key, anchors: anchors.map(a => a.certificate), now: clock.now() }
    return verifier.verifyLater
      ? untilAborted(verifier.verifyLater(chain, expected), signal)
      : verifier.verify(chain, expected)
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

/** The verified certificate, as it is served. */
export function toIssued(
  trustStore: TrustStore,
  verified: VerifiedChain,
  { bundle, anchor: root }: AcceptedRoot,
  {
    identity,
    privateKey,
    hint,
    ...origin
  }: Pick<Issued, 'source' | 'receivedAt' | 'phase'> &
    Pick<IssuedCertificate, 'hint'> & { readonly identity: SpiffeId; readonly privateKey: SealedKey },
): Issued {
  const lease = bundle.lease(root.fingerprint)
  const secret = new CertificateSecret({
    name: identity,
    version: verified.version,
    certificateChain: verified.chainPem,
    privateKey,
    notBefore: verified.notBefore,
    notAfter: verified.notAfter,
    serialNumber: verified.serialNumber,
    ...(hint && { hint }),
  })
  return {
    ...origin,
    secret,
    root,
    ...(verified.clientRefusal !== undefined && { clientRefusal: verified.clientRefusal }),
    kind: kindOf(verified, privateKey.byteLength),
    release() {
      secret.wipe()
      lease[Symbol.dispose]()
      trustStore.schedulePrune(bundle)
    },
  }
}

const END_OF_CERTIFICATE = '-----END CERTIFICATE-----\n'
const MAX_KINDS = 64
const kinds = new Map<string, string>()
/** Of the last certificate: most have the same ones. */
let lastIssuer = { intermediates: '', fingerprint: '' }

/** By 256 bytes the keys of every type and size differ, and those of one do not. Thousands of certificates are of one kind: it is kept once. */
function kindOf({ rootFingerprint, chainPem }: VerifiedChain, keyBytes: number): string {
  const intermediates = chainPem.slice(chainPem.indexOf(END_OF_CERTIFICATE) + END_OF_CERTIFICATE.length)
  if (intermediates !== lastIssuer.intermediates)
    lastIssuer = { intermediates, fingerprint: intermediates === '' ? '' : hash('sha256', intermediates) }
  const kind = `${rootFingerprint} ${lastIssuer.fingerprint} ${keyBytes >> 8}`
  const known = kinds.get(kind)
  if (known !== undefined) return known
  if (kinds.size >= MAX_KINDS) kinds.clear()
  kinds.set(kind, kind)
  return kind
}

/** Wipes the key of an answer that nobody takes, whenever it comes. Never rejects. */
async function wipeBrought(answering: Promise<IssuedCertificate>): Promise<void> {
  try {
    const { privateKey } = await answering
    if (privateKey instanceof Uint8Array) privateKey.fill(0)
  } catch {} // there is no answer, or none with a key
}

/** A plugin may throw anything: nothing of it is passed on but what can be shown. */
function asCAError(error: unknown, signal: AbortSignal, identity: SpiffeId): unknown {
  return signal.aborted && error === signal.reason
    ? error
    : asShownCAError(error, `The CA plugin failed for ${identity}: `)
}
