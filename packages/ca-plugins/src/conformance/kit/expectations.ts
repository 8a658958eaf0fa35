/** Checks of answers and errors. Each function throws an `AssertionError` that says what is wrong. */
import assert, { AssertionError } from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { inspect } from 'node:util'
import { nodeCertificateVerifier, type VerifiedChain } from '@livery/core'
import { CAError, type CAErrorCode, type IssuedCertificate, isSpiffeId, splitCertificates } from '@livery/core/plugin'
import type { Subject } from './conformance-case.ts'
import { inTime, rejection } from './in-time.ts'
import { type KitRequest, type KitRequestOptions, kitRequest } from './kit-request.ts'

const PEM = /^-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,76}\n)+-----END CERTIFICATE-----\n$/

/** Asks for a certificate. Only the group `contract` checks it, so that one fault fails one group. */
export async function issue(on: Subject, options: KitRequestOptions = {}): Promise<IssuedCertificate> {
  return inTime(on.client.issue(await kitRequest(on, options)), on.patienceMs, 'issue()')
}

/** Asks for a certificate and checks all of it. */
export async function issueWell(on: Subject, options: KitRequestOptions = {}): Promise<IssuedCertificate> {
  const request = await kitRequest(on, options)
  const issued = await inTime(on.client.issue(request), on.patienceMs, 'issue()')
  await expectWell(on, request, issued)
  return issued
}

/** `issued` is what `request` asked for, in the form of the contract. */
export async function expectWell(on: Subject, request: KitRequest, issued: IssuedCertificate): Promise<void> {
  expectForm(issued)
  expectOrder(issued)
  expectKeyHandling(on, request, issued)
  try {
    await verifyAsCore(on, request, issued)
  } catch (error) {
    throw withMissingIntermediates(error, issued.chain.length, on.ca?.lastChainLength ?? 0)
  }
}

/** The error of a chain without its intermediates speaks of roots. */
function withMissingIntermediates(error: unknown, given: number, answered: number): unknown {
  if (!(error instanceof Error) || given >= answered) return error
  const certificates = given === 1 ? '1 certificate' : `${given} certificates`
  const reason = `issue() gave ${certificates}, the CA's answer had ${answered}: pass on every intermediate`
  return new AssertionError({ message: `${reason}. ${error.message}` })
}

/** Verifies `issued` as core does. Rejects with a `CAError` where core refuses. */
export async function verifyAsCore(
  on: Subject,
  { identity, dnsNames = [], material }: KitRequest,
  { chain, roots = [], privateKey }: IssuedCertificate,
): Promise<VerifiedChain> {
  const anchors = [...on.roots(), ...roots, ...(await trustBundleOf(on))].map(pem => new X509Certificate(pem))
  const expected = privateKey
    ? { key: { privateKeyPem: privateKey } }
    : { key: { publicKeyDer: material.publicKeyDer }, dnsNames }
  return nodeCertificateVerifier.verify(chain, { identity, ...expected, anchors, now: on.clock.now() })
}

export async function trustBundleOf({ client, patienceMs }: Subject): Promise<readonly string[]> {
  if (!client.trustBundle) return []
  return inTime(client.trustBundle({ signal: new AbortController().signal }), patienceMs, 'trustBundle()')
}

/** PEM, one certificate an element, newline at the end. */
export function expectPem(element: unknown, where: string): void {
  assert.equal(typeof element, 'string', `${where} is not a text`)
  assert.match(String(element), PEM, `${where} is not one PEM certificate with a newline at its end`)
}

/** Finds the leaf at any position: the group `contract` checks the order. */
export function leafOf({ chain }: IssuedCertificate): X509Certificate {
  const certificates = splitCertificates(chain.join('\n')).map(pem => new X509Certificate(pem))
  const leaf = certificates.find(({ ca }) => !ca)
  assert.ok(leaf, 'there is no leaf in the chain')
  return leaf
}

/** `issued` is the answer to `request`, and not to another one. */
export function expectOwn({ capabilities }: Subject, request: KitRequest, issued: IssuedCertificate): void {
  const leaf = leafOf(issued)
  const uris = leaf.subjectAltName?.split(', ').filter(name => name.startsWith('URI:'))
  assert.deepEqual(uris, [`URI:${request.identity}`], 'a request was answered with a certificate for another identity')
  if (capabilities.bringsKey) return
  const key = leaf.publicKey.export({ type: 'spki', format: 'der' })
  assert.ok(key.equals(request.material.publicKeyDer), 'a request was answered with a certificate for another key')
}

/** The chain of `issued` leads to one of `anchors` (PEM). */
export function expectPath(on: Subject, issued: IssuedCertificate, anchors: readonly string[]): void {
  const leaf = leafOf(issued)
  const identity = leaf.subjectAltName?.replace('URI:', '') ?? ''
  assert.ok(isSpiffeId(identity), `the leaf is for ${identity}, which is not a SPIFFE ID`)
  nodeCertificateVerifier.verify([leaf.toString(), ...splitCertificates(issued.chain.join('\n'))], {
    identity,
    key: { publicKeyDer: leaf.publicKey.export({ type: 'spki', format: 'der' }) },
    anchors: anchors.map(pem => new X509Certificate(pem)),
    now: on.clock.now(),
  })
}

/** The lifetime in seconds, from notBefore or from `now`, whichever is later. */
export function lifetimeOf(issued: IssuedCertificate, now: number): number {
  const leaf = leafOf(issued)
  return (leaf.validToDate.getTime() - Math.max(now, leaf.validFromDate.getTime())) / 1000
}

export function expectCAError(error: unknown, codes: readonly CAErrorCode[], what: string): CAError {
  assert.ok(error instanceof CAError, `${what} was rejected with ${inspect(error, { depth: 0 })}, ${notCAError(error)}`)
  assert.ok(
    codes.includes(error.code),
    `${what} was rejected as "${error.code}" instead of ${codes.join(' or ')}: ${error.message}`,
  )
  assert.ok(error.message.trim() !== '', `the CAError of ${what} has no message`)
  return error
}

function notCAError(error: unknown): string {
  return error instanceof Error && error.name === 'CAError'
    ? 'which is a CAError of another copy of @livery/core: make it a peerDependency'
    : 'which is not a CAError: throw one, such as by caError of @livery/ca-plugins/support'
}

/** Asks for a certificate and expects a `CAError` with one of these codes. */
export async function issueBadly(
  on: Subject,
  codes: readonly CAErrorCode[],
  options: KitRequestOptions = {},
): Promise<CAError> {
  const asked = on.client.issue(await kitRequest(on, options))
  const error = expectCAError(await rejection(asked, on.patienceMs, 'issue()'), codes, 'issue()')
  assert.ok(!error.local, `what the CA did is "local", as if its cause were on this node: ${error.message}`)
  return error
}

function expectForm({ chain, roots }: IssuedCertificate): void {
  assert.ok(Array.isArray(chain) && chain.length > 0, 'the chain is not a list of certificates')
  for (const [index, element] of chain.entries()) expectPem(element, `chain[${index}]`)
  for (const [index, element] of (roots ?? []).entries()) expectPem(element, `roots[${index}]`)
  expectNoRoot(chain)
}

/** The chain must not have the root, even if the CA sends it: a peer that trusts it has it, and no other peer must get it. */
export function expectNoRoot(chain: readonly string[]): void {
  for (const [index, pem] of chain.entries()) {
    const certificate = new X509Certificate(pem)
    assert.ok(!certificate.checkIssued(certificate), `chain[${index}] is a root; the chain goes without it`)
  }
}

export function expectOrder({ chain }: IssuedCertificate): void {
  const certificates = chain.map(pem => new X509Certificate(pem))
  assert.equal(certificates[0]?.ca, false, 'chain[0] is a CA certificate: the leaf comes first')
  for (const [index, certificate] of certificates.entries()) {
    const issuer = certificates[index + 1]
    if (!issuer) continue
    assert.ok(certificate.checkIssued(issuer), `chain[${index}] is not issued by chain[${index + 1}]`)
    assert.ok(certificate.validToDate <= issuer.validToDate, `chain[${index}] outlives its issuer`)
  }
}

function expectKeyHandling({ capabilities }: Subject, request: KitRequest, { privateKey }: IssuedCertificate): void {
  if (capabilities.bringsKey) {
    assert.ok(privateKey, 'the source brings its own key, but no privateKey came')
    assert.equal(request.csrCalls(), 0, 'csr() was called though the source brings its own key')
    return
  }
  assert.equal(privateKey, undefined, 'a privateKey came from a CA that signs (capabilities.bringsKey is not set)')
  assert.ok(request.csrCalls() > 0, 'csr() was never called, so what was signed is not the key asked for')
}
