/** Thousands of generated chains: Go and OpenSSL accept each one that is served, and an SVID that both accept is served. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { before, describe, test } from 'node:test'
import { nodeCertificateVerifier, pemToDer, splitCertificates, type VerifiedChain } from '@livery/core'
import { type GeneratedChain, generateChain, VARIATIONS } from '../test/chain-generator.ts'
import { now } from '../test/corpus/certificates.ts'
import { askGo, askOpenSsl, type Question } from '../test/peer-verdicts.ts'
import { clientRefusalOf, verdictOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const CHAINS = process.env['LIVERY_SLOW'] ? 50_000 : 3_000
/** `openssl verify` takes two processes per chain. */
const OPENSSL_CHAINS = process.env['LIVERY_SLOW'] ? 2_000 : 150

/**
 * Rules that only `openssl verify -x509_strict` has, for the CA that issues and not of the peer that verifies (RFC 5280,
 * sections 4.2.1.1 to 4.2.1.3, 4.2.1.6 and 4.2.1.9); neither Go nor BoringSSL, nor OpenSSL in a handshake, looks at it, and
 * CAs in use leave it out.
 */
const ONLY_ISSUERS = [
  /Missing Authority Key Identifier/,
  /Missing Subject Key Identifier/,
  /Basic Constraints of CA cert not marked critical/,
  /CA cert does not include key usage extension/,
  /Path length given without key usage keyCertSign/,
  /Subject empty and Subject Alt Name extension not critical/,
]

/**
 * Refusals of BoringSSL's X.509 code: it takes the common name of an intermediate for a DNS name that constraints bind, and
 * cannot read a root of version 1 with extensions.
 */
const KNOWN_REFUSALS = [/permitted subtree violation/, /one of the roots cannot be read/]

/**
 * Where Livery is stricter than Go and OpenSSL together: BoringSSL refuses it, or peers would have to evaluate what is not
 * evaluated here.
 */
const STRICTER: readonly string[] = [
  'policies', // constraints on policies and their mappings
  'a known extension that is critical or not', // CRL distribution points: BoringSSL
  'another key', // P-224, secp256k1; Ed25519 in a leaf
  'a strange RSA key', // an exponent or size that costs a verifier dearly
  'name constraints', // directory names; the edges where Go and OpenSSL disagree
  'names', // of an issuer, which not every verifier reads
  'subject', // an issuer without a name: RFC 5280, section 4.1.2.4
  'a serial number', // negative, or longer than RFC 5280, section 4.1.2.2, allows
  'version', // extensions in another version than 3, or a version that does not exist
]

interface Verdict extends GeneratedChain {
  readonly seed: number
  readonly verdict: VerifiedChain | string
}

interface Accepted extends Verdict {
  readonly verdict: VerifiedChain
}

const caseOf = ({ chain, roots, publicKeyDer }: GeneratedChain) => ({ chain, roots, key: { publicKeyDer } })
const isAccepted = (verdict: Verdict): verdict is Accepted => typeof verdict.verdict === 'object'
const described = ({ seed, what, verdict }: Verdict, reason: string) =>
  `seed ${seed} (${what}): ${reason}; here: ${verdict}`

/** The chain that is pushed, as a peer verifies it. */
const served = ({ roots, verdict }: Accepted, at: number): Question => ({
  chain: splitCertificates(verdict.chainPem).map(pemToDer),
  roots,
  now: at,
})
const start = ({ verdict }: Accepted) => Math.max(now, verdict.notBefore)
const end = ({ verdict }: Accepted) => verdict.notAfter - 1_000

describe('chains that vary every rule of RFC 5280', () => {
  let verdicts: readonly Verdict[] = []

  before(() => {
    verdicts = Array.from({ length: CHAINS }, (_, seed) => {
      const generated = generateChain(seed)
      return { ...generated, seed, verdict: verdictOf(nodeCertificateVerifier, caseOf(generated)) }
    })
  })

  test('many are accepted and many refused, and every variation occurs alone', () => {
    const accepted = verdicts.filter(isAccepted).length
    assert.ok(accepted > CHAINS / 4 && accepted < (CHAINS * 3) / 4, `${accepted} of ${CHAINS}`)
    for (const name of VARIATIONS) {
      const alone = verdicts.filter(({ what }) => /^[^,]*$/.test(what) && what.startsWith(`${name} of`))
      assert.ok(alone.length > 3, `${name}: ${alone.length}`)
    }
  })

  test('both verifiers say the same, word for word', { skip: lookup.addon ? false : lookup.reason }, () => {
    for (const verdict of verdicts) {
      const native = nativeCertificateVerifier && verdictOf(nativeCertificateVerifier, caseOf(verdict))
      assert.deepEqual(native, verdict.verdict, described(verdict, 'natively otherwise'))
    }
  })

  test("Envoy's library takes each served chain, but for the few that RFC 5280 allows", {
    skip: lookup.addon ? false : lookup.reason,
  }, () => {
    for (const verdict of verdicts.filter(isAccepted)) {
      const refusal = nativeCertificateVerifier && clientRefusalOf(nativeCertificateVerifier, caseOf(verdict))
      const isKnown = refusal === undefined || KNOWN_REFUSALS.some(known => known.test(refusal))
      assert.ok(isKnown, described(verdict, String(refusal)))
    }
  })

  test('Go accepts each served chain from its first moment to its last', {
    skip: missing('go', 'version'),
  }, async () => {
    const accepted = verdicts.filter(isAccepted)
    for (const time of [start, end]) {
      const answers = await askGo(accepted.map(verdict => served(verdict, time(verdict))))
      const refused = accepted.flatMap((verdict, index) => (answers[index] ? [described(verdict, answers[index])] : []))
      assert.deepEqual(refused, [])
    }
  })

  test('OpenSSL accepts each served chain by its strict rules', { skip: missing('openssl', 'version') }, async () => {
    const accepted = verdicts.filter(isAccepted).slice(0, OPENSSL_CHAINS)
    for (const time of [start, end]) {
      const answers = await askOpenSsl(
        accepted.map(verdict => served(verdict, time(verdict))),
        '-x509_strict',
      )
      const refused = accepted.filter((_, index) => answers[index])
      const reasons = answers.filter(answer => answer !== '')
      const unexpected = reasons.flatMap((reason, index) => {
        const verdict = refused[index]
        return verdict && !ONLY_ISSUERS.some(known => known.test(reason)) ? [described(verdict, reason)] : []
      })
      assert.deepEqual(unexpected, [])
      // A strict reason hides those behind it.
      const again = await askOpenSsl(refused.map(verdict => served(verdict, time(verdict))))
      assert.deepEqual(
        again.filter(reason => reason !== ''),
        [],
      )
    }
  })

  test('an SVID that both accept is served', {
    skip: missing('go', 'version') || missing('openssl', 'version'),
  }, async () => {
    const isSvidFault = (reason: string) => /X509-SVID|only more than 5 minutes|carries \d URI names/.test(reason)
    const refused = verdicts.filter(
      ({ verdict, what }) =>
        typeof verdict === 'string' && !isSvidFault(verdict) && !STRICTER.some(name => what.includes(`${name} of`)),
    )
    const ask = (verdict: Verdict): Question => ({ chain: verdict.chain, roots: verdict.roots, now })
    const go = await askGo(refused.map(ask))
    const acceptedByGo = refused.filter((_, index) => go[index] === '')
    const openssl = await askOpenSsl(acceptedByGo.map(ask), '-x509_strict')
    const acceptedByBoth = acceptedByGo.filter((_, index) => openssl[index] === '')
    assert.deepEqual(
      acceptedByBoth.map(verdict => described(verdict, 'accepted by both')),
      [],
    )
  })
})

/** `false`, or why the test is skipped. */
function missing(program: string, argument: string): false | string {
  try {
    execFileSync(program, [argument], { stdio: 'ignore' })
    return false
  } catch {
    return `${program} is not installed`
  }
}
