/**
 * Generated chains with a rule varied in some place, judged here, by Go, by OpenSSL and by Envoy: what is served, Envoy takes, and what
 * all of them take is served. SECURITY.md lists the known differences.
 */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { type CertificateVerifier, nodeCertificateVerifier, type VerifiedChain } from '@livery/core'
import { pemToDer, splitCertificates } from '@livery/core/plugin'
import { type GeneratedChain, generateChain } from '../test/chain-generator.ts'
import { VARIATIONS } from '../test/chain-variations.ts'
import { now } from '../test/corpus/certificates.ts'
import { askEnvoy, askGo, askOpenSsl, noEnvoy, type Question } from '../test/peer-verdicts.ts'
import { verdictOf } from '../test/verdict.ts'
import { without } from '../test/without-program.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const verifier: CertificateVerifier = nativeCertificateVerifier ?? nodeCertificateVerifier
const noAddon = lookup.addon ? false : lookup.reason
const isSlow = process.env['LIVERY_SLOW'] !== undefined
const CHAINS = isSlow ? 12_000 : 1_200
/** `openssl verify` takes two processes per chain. */
const OPENSSL_CHAINS = isSlow ? 2_000 : 60

/** Variations that Envoy takes, and Go or OpenSSL does not always: the chain is served (SECURITY.md says why). */
const LAXER: ReadonlySet<string> = new Set([
  'a damaged signature', // of a root: Go and Envoy do not look, OpenSSL neither
  'a key usage of another form',
  'a known extension that is critical or not',
  'a long path length',
  'a name in another string',
  'a rare extension',
  'a serial number',
  'an EC key of another form',
  'an extension of another form',
  'an extension twice',
  'an unusual name',
  'another algorithm inside than outside',
  'BER in the signed part', // a TRUE that is not FF
  'dates in another form',
  'key usage',
  'name constraints',
  'names',
  'netscape type',
  'no extension in the list',
  'parameters of the algorithm',
  'path length',
  'policies',
  'subject',
  'the issuer by its serial number',
  'the issuer in another form',
  'the name of its issuer',
  'unique identifiers',
  'version',
])

/** Variations that all three load, and that are refused here. */
const STRICTER: ReadonlySet<string> = new Set([
  'a strange RSA key', // an exponent or size that costs a verifier dearly
  'another key', // P-224, secp256k1; Ed25519 in a leaf
  'basic constraints', // a path length without a CA: Envoy loads it, and refuses it in a handshake
  'dates in another form', // with a time zone
])

/** `X509_verify_cert` gives Envoy's verdict in a handshake, which it does not give when it loads a chain. */
const OF_ENVOYS_LIBRARY = /element \d+ of the path, its root included(?::| is not for)/

interface Verdict extends GeneratedChain {
  readonly seed: number
  readonly verdict: VerifiedChain | string
}

interface Accepted extends Verdict {
  readonly verdict: VerifiedChain
}

const isAccepted = (verdict: Verdict): verdict is Accepted => typeof verdict.verdict === 'object'
const described = ({ seed, what, verdict }: Verdict, reason: string) =>
  `seed ${seed} (${what}): ${reason}; here: ${typeof verdict === 'object' ? 'served' : verdict}`
const variationsOf = ({ what }: GeneratedChain) =>
  what.split(', ').map(each => each.replace(/ of (?:the|a) \S+(?: way)?$/, ''))
const isKnown = (verdict: GeneratedChain, known: ReadonlySet<string>) =>
  variationsOf(verdict).some(each => known.has(each))

/** The chain that is pushed, as a peer verifies it. */
const served = ({ roots, verdict }: Accepted, at: number): Question => ({
  chain: splitCertificates(verdict.chainPem).map(pemToDer),
  roots,
  now: at,
})

/** A root as it is served: OpenSSL reads it first. */
function rootOf(der: Buffer): X509Certificate | undefined {
  try {
    return new X509Certificate(der)
  } catch {
    return undefined
  }
}

function judged(seed: number): Verdict {
  const generated = generateChain(seed)
  const roots = generated.roots.flatMap(der => rootOf(der)?.raw ?? [])
  const answer = { chain: generated.chain, roots, key: { publicKeyDer: generated.publicKeyDer } }
  return { ...generated, roots, seed, verdict: verdictOf(verifier, answer) }
}

describe('chains that vary every rule of RFC 5280', { skip: noAddon }, () => {
  let verdicts: readonly Verdict[] = []

  before(() => {
    verdicts = Array.from({ length: CHAINS }, (_, seed) => judged(seed))
  })

  test('many are accepted and many refused, and every variation occurs alone', () => {
    const accepted = verdicts.filter(isAccepted).length
    assert.ok(accepted > CHAINS / 4 && accepted < (CHAINS * 3) / 4, `${accepted} of ${CHAINS}`)
    for (const name of VARIATIONS) {
      const alone = verdicts.filter(({ what }) => /^[^,]*$/.test(what) && what.startsWith(`${name} of`))
      assert.ok(alone.length > 0, name)
    }
  })

  test('Envoy loads each chain that is served, and each root that is read', { skip: noEnvoy }, async () => {
    const accepted = verdicts.filter(isAccepted)
    const secrets = verdicts.map(each => ({
      roots: each.roots.flatMap(der => {
        const root = rootOf(der)
        return root && verifier.readsRoot?.(root) ? [root.toString()] : []
      }),
      ...(isAccepted(each) && each.privateKey && { pair: pairOf(each.verdict, each.privateKey) }),
    }))
    const loaded = secrets.map((each, index) => ({ each, index })).filter(({ each }) => each.roots.length > 0)
    const refused = await askEnvoy(loaded.map(({ each }) => each))
    const reasons = [...refused].flatMap(([place, reason]) => {
      const verdict = verdicts[loaded[place]?.index ?? -1]
      return verdict ? [described(verdict, reason)] : []
    })
    assert.deepEqual(reasons, [])
    assert.ok(accepted.length > 0)
  })

  test('Go accepts each served chain from its first moment to its last, but for what is known', {
    skip: without('go'),
  }, async () => {
    const accepted = verdicts.filter(isAccepted)
    for (const time of [
      ({ verdict }: Accepted) => Math.max(now, verdict.notBefore),
      ({ verdict }: Accepted) => verdict.notAfter - 1_000,
    ]) {
      const answers = await askGo(accepted.map(verdict => served(verdict, time(verdict))))
      const refused = accepted.flatMap((verdict, index) =>
        answers[index] && !isKnown(verdict, LAXER) ? [described(verdict, answers[index])] : [],
      )
      assert.deepEqual(refused, [])
    }
  })

  test('OpenSSL accepts each served chain, but for what is known', { skip: without('openssl') }, async () => {
    const accepted = verdicts.filter(isAccepted).filter(verdict => !isKnown(verdict, LAXER))
    const some = accepted.slice(0, OPENSSL_CHAINS)
    const answers = await askOpenSsl(some.map(verdict => served(verdict, Math.max(now, verdict.verdict.notBefore))))
    const refused = some.flatMap((verdict, index) => (answers[index] ? [described(verdict, answers[index])] : []))
    assert.deepEqual(refused, [])
  })

  test('an SVID that Go, OpenSSL and Envoy accept is served', {
    skip: without('go') || without('openssl') || noEnvoy,
  }, async () => {
    const isSvidFault = (reason: string) =>
      /X509-SVID|only more than 5 minutes|carries \d URI names|characters that no/.test(reason)
    const refused = verdicts.filter(
      verdict =>
        typeof verdict.verdict === 'string' &&
        !isSvidFault(verdict.verdict) &&
        !OF_ENVOYS_LIBRARY.test(verdict.verdict) &&
        !isKnown(verdict, STRICTER),
    )
    const ask = (verdict: Verdict): Question => ({ chain: verdict.chain, roots: verdict.roots, now })
    const go = await askGo(refused.map(ask))
    const byGo = refused.filter((_, index) => go[index] === '')
    const openssl = await askOpenSsl(byGo.map(ask))
    const byBoth = byGo.filter((_, index) => openssl[index] === '')
    const secrets = byBoth.map(({ chain, roots, privateKey }) => ({
      roots: roots.flatMap(der => rootOf(der)?.toString() ?? []),
      ...(privateKey && { pair: pairOf({ chainPem: chain.map(der => pemOf(der)).join('') }, privateKey) }),
    }))
    const envoy = await askEnvoy(secrets, byBoth.length)
    const byAll = byBoth.filter((_, index) => !envoy.has(index))
    assert.deepEqual(
      byAll.map(verdict => described(verdict, 'accepted by all')),
      [],
    )
  })
})

const pemOf = (der: Buffer) => `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`

function pairOf({ chainPem }: Pick<VerifiedChain, 'chainPem'>, key: NonNullable<GeneratedChain['privateKey']>) {
  return { chain: chainPem, key: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
}
