/** Malformed and weak certificates: what the native verifier takes of them, and that neither verifier is slow. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { rootCertificates } from 'node:tls'
import { nodeCertificateVerifier } from '@livery/core'
import { derToPem } from '@livery/core/plugin'
import fc from 'fast-check'
import * as forge from '../test/certificate-forge.ts'
import { type Case, expectationOf } from '../test/corpus/case.ts'
import * as corpus from '../test/corpus/certificates.ts'
import { mutate, mutations } from '../test/der-mutation.ts'
import { verdictOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const native = nativeCertificateVerifier ?? nodeCertificateVerifier
const skip = lookup.addon ? false : lookup.reason
const { der, sequence, extension } = forge
const { root, middle, leaf, makeIssuer, leafTbs, LEAF_EXTENSIONS } = corpus

interface Refused {
  readonly why: string
  readonly answer: () => Case
}

const all = Object.values(LEAF_EXTENSIONS)
const withExtension = (...more: readonly Buffer[]) => ({ chain: [leaf(root, { extensions: [...all, ...more] })] })
const below = (parent: corpus.Issuer): Case => ({ chain: [leaf(parent)], roots: [parent.der] })

/** The verdict on a certificate whose form is wrong: a key is compared as it is written. */
const OF_FORM = /is not a PEM certificate|does not lead|no SPIFFE ID has|for another key/

/** OpenSSL accepts each. */
const REFUSED: Record<string, Refused> = {
  'bytes after the certificate': {
    why: 'OpenSSL drops them; what is served would not be what came',
    answer: () => ({ chain: [Buffer.concat([leaf(root), Buffer.of(0)])] }),
  },
  'PEM inside of PEM': {
    why: 'OpenSSL takes text where DER should be',
    answer: () => ({ chain: [Buffer.from(derToPem(leaf(root), 'CERTIFICATE'))] }),
  },
  'a length that is longer than it need be': {
    why: 'that is BER; certificates are DER (RFC 5280, section 4.1)',
    answer: () => ({ chain: [forge.signed(forge.paddedLength(leafTbs(root)), root)] }),
  },
  'bytes after the value of an extension': {
    why: 'what nobody reads can say anything',
    answer: () => withExtension(extension('2.5.29.14', Buffer.concat([der(0x04, 'id'), Buffer.of(5, 0)]))),
  },
  'a critical extension that nobody knows': {
    why: 'RFC 5280, section 4.2, forbids to accept it, and Envoy would not',
    answer: () => withExtension(extension('1.3.6.1.4.1.99999.1', Buffer.of(5, 0), { critical: true })),
  },
  'extensions in a certificate of version 1': {
    why: 'RFC 5280, section 4.1.2.9',
    answer: () => ({ chain: [leaf(root, { version: der(0xa0, der(0x02, Buffer.of(0))) })] }),
  },
  'a date in a time zone': {
    why: 'RFC 5280, section 4.1.2.5.1',
    answer: () => ({
      chain: [leaf(root, { validity: sequence(der(0x17, '261121000000+0000'), forge.time(corpus.now + 60_000)) })],
    }),
  },
  'a public key with a bit less than its bytes': {
    why: 'no key is written so',
    answer: () => {
      const publicKeyDer = publicKeyThatEndsInZero()
      const publicKey = Buffer.from(publicKeyDer)
      const uncompressedPoint = publicKey.length - 65
      publicKey[uncompressedPoint - 1] = 1
      return { chain: [leaf(root, { publicKey })], key: { publicKeyDer } }
    },
  },
  'a signature with SHA-1': {
    why: 'broken; Envoy refuses it',
    answer: () => below(makeIssuer('sha1', { key: corpus.rsaKey(), scheme: forge.RSA_SHA1 })),
  },
  'a signature with RSA-1024': {
    why: 'too short; Envoy refuses it',
    answer: () => below(makeIssuer('short', { key: corpus.rsaKey(1024), scheme: forge.RSA_SHA256 })),
  },
  'a signature on secp256k1': {
    why: 'no proxy knows the curve',
    answer: () => below(makeIssuer('curve', { key: corpus.ecKey('secp256k1') })),
  },
}

for (const [what, { why, answer }] of Object.entries(REFUSED))
  test(`${what}: refused (${why})`, { skip }, () => assert.match(String(verdictOf(native, answer())), OF_FORM))

/** The last bit is 0, so that OpenSSL loses nothing when it drops it. */
function publicKeyThatEndsInZero(): Buffer {
  for (;;) {
    const publicKey = forge.spki(corpus.ecKey())
    if (((publicKey.at(-1) ?? 1) & 1) === 0) return publicKey
  }
}

/** Certificates with much to damage; every one of them is good. */
const SEEDS = [
  all,
  [
    ...all,
    extension('2.5.29.14', der(0x04, Buffer.of(1, 2, 3))),
    extension('2.5.29.35', sequence(der(0xa1, der(0xa4, root.subject)))),
    extension('2.5.29.31', sequence(sequence(der(0xa0, der(0xa0, forge.uri('http://crl.example.com')))))),
    extension('1.3.6.1.5.5.7.1.1', sequence(sequence(forge.oid('1.3.6.1.5.5.7.48.1'), forge.uri('http://ocsp')))),
    extension('2.5.29.32', sequence(sequence(forge.oid('1.2.3.4')))),
    extension('2.16.840.1.113730.1.1', der(0x03, Buffer.of(5, 0xe0))),
    extension('2.5.29.30', sequence(der(0xa0, sequence(der(0x86, 'cluster.local'))))),
  ],
  [
    LEAF_EXTENSIONS.extendedKeyUsage,
    forge.subjectAltName(
      forge.dns('web.default.svc'),
      der(0x81, 'web@example.com'),
      der(0x87, Buffer.of(10, 0, 0, 1)),
      der(0x88, Buffer.of(0x2a, 3)),
      der(0xa0, forge.oid('1.3.6.1.4.1.311.20.2.3'), der(0xa0, der(0x0c, 'web@example.com'))),
      forge.uri(corpus.identity),
    ),
  ],
].map(extensions => leafTbs(root, { extensions, subject: forge.name('web') }))

const goodLeaf = leaf(root)
const middleTbs = corpus.signedPartOf(middle.der)

/** Damaged before it was signed, so that the damage counts; and after, in every place of a chain. */
const damagedChains = fc.oneof(
  fc.tuple(fc.constantFrom(...SEEDS), mutations).map(([tbs, damage]) => [forge.signed(mutate(tbs, damage), root)]),
  mutations.map(damage => [leaf(middle), forge.signed(mutate(middleTbs, damage), root)]),
  mutations.map(damage => [mutate(goodLeaf, damage)]),
  mutations.map(damage => [goodLeaf, mutate(middle.der, damage)]),
)

test('whatever is damaged, there is a verdict, and what both verifiers accept they serve alike', { skip }, () => {
  const seen = { both: 0, neither: 0, one: 0 }
  const damaged = fc.property(damagedChains, chain => {
    const [here, there] = [verdictOf(native, { chain }), verdictOf(nodeCertificateVerifier, { chain })]
    const accepted = [here, there].filter(verdict => typeof verdict === 'object')
    seen[accepted.length === 2 ? 'both' : accepted.length === 1 ? 'one' : 'neither']++
    if (accepted.length === 2) assert.deepEqual(here, there)
  })
  fc.assert(damaged, { numRuns: process.env['LIVERY_SLOW'] ? 100_000 : 3_000 })
  assert.ok(seen.both > 0 && seen.neither > seen.one, JSON.stringify(seen))
})

test('every root that Node brings can be read natively as well', { skip }, () => {
  const { addon } = lookup
  const unread = rootCertificates.filter(pem => {
    const { raw } = new X509Certificate(pem)
    try {
      return addon && !new addon.TrustAnchor(raw)
    } catch {
      return true
    }
  })
  assert.deepEqual(
    unread.map(pem => new X509Certificate(pem).subject),
    [],
  )
  assert.ok(rootCertificates.length > 100)
})

const KILOBYTES = 44
/** As large as a chain may be, and of the shape that costs a parser most. */
const BOMBS: Record<string, () => readonly Buffer[]> = {
  'sequences in sequences, without end': () => [Buffer.alloc(KILOBYTES * 1_000, Buffer.of(0x30, 0x80))],
  'sequences in sequences': () => [forge.nested(0x30, 8_000)],
  'a value nested in an extension': () => withExtension(extension('1.2.3.4', forge.nested(0xa0, 8_000))).chain,
  'a length of four gigabytes': () => [Buffer.from('3084ffffffff3084ffffffff', 'hex')],
  'a length of 126 bytes': () => [Buffer.concat([Buffer.of(0x30, 0xfe), Buffer.alloc(126, 0xff)])],
  'a serial number of 44 kB': () => [leaf(root, { serial: der(0x02, Buffer.alloc(KILOBYTES * 1_000, 1)) })],
  'a key identifier of 44 kB': () =>
    withExtension(extension('2.5.29.14', der(0x04, Buffer.alloc(KILOBYTES * 1_000)))).chain,
  'thousands of extensions': () =>
    withExtension(...Array.from({ length: 3_000 }, (_, index) => extension(`1.3.6.1.${index}`, Buffer.alloc(0)))).chain,
  'thousands of names': () => {
    const names = Array.from({ length: 9_000 }, (_, index) => forge.dns(`${index % 10}`))
    return [leaf(root, { extensions: [forge.subjectAltName(...names, forge.uri(corpus.identity))] })]
  },
  'thousands of usages': () => [
    leaf(root, { extensions: [forge.extendedKeyUsage(...Array<string>(4_000).fill(forge.SERVER_AUTH))] }),
  ],
  'a name of thousands of unsorted parts': () => {
    const parts = Array.from({ length: 3_000 }, (_, index) =>
      sequence(forge.oid('2.5.4.3'), der(0x0c, `${3_000 - index}`)),
    )
    return [leaf(root, { subject: sequence(der(0x31, ...parts)) })]
  },
  'an RSA key of 65,536 bits above the leaf': () => {
    const modulus = Buffer.alloc(65_536 / 8, 0xff)
    const key = sequence(der(0x02, Buffer.of(0), modulus), der(0x02, Buffer.alloc(8_000, 0x7f)))
    const publicKey = sequence(sequence(forge.oid('1.2.840.113549.1.1.1'), der(0x05)), der(0x03, Buffer.of(0), key))
    const huge = makeIssuer('huge', { parent: root, publicKey })
    return [
      forge.signed(leafTbs({ ...huge, scheme: forge.RSA_SHA256 }), { key: corpus.rsaKey(), scheme: forge.RSA_SHA256 }),
      huge.der,
    ]
  },
  'nine CAs that all certify each other with RSA-4096': () => {
    const key = corpus.rsaKey(4096)
    const signer = { subject: forge.name('ring'), key, scheme: forge.RSA_SHA256 }
    const ring = Array.from(
      { length: 9 },
      () => makeIssuer('ring', { key, scheme: forge.RSA_SHA256, parent: signer }).der,
    )
    return [leaf(signer), ...ring]
  },
}

for (const [what, bomb] of Object.entries(BOMBS)) {
  test(`${what}: answered natively within 50 ms of CPU time`, { skip }, () => {
    const chain = bomb()
    const times = [1, 2, 3].map(() => cpuTimeOf(() => verdictOf(native, { chain })))
    assert.ok(Math.min(...times) < 50, `it took ${times.map(time => time.toFixed(1))} ms`)
  })
}

/** Up to ten certificates and a hundred roots that all have the same name: every way has to be tried, or given up. */
const CROWDS: Record<string, () => Case> = {
  'a hundred roots of one name with P-384 keys': () => {
    const roots = Array.from({ length: 100 }, () => crowded('P-384'))
    const stranger = crowded('P-384')
    return { chain: [leaf(stranger), ...roots.slice(0, 9).map(({ der }) => der)], roots: roots.map(({ der }) => der) }
  },
  'nine CAs that all certify each other, under a hundred roots of other keys': () => {
    const key = corpus.ecKey('P-521')
    const signer = { subject: forge.name('crowd'), key, scheme: forge.ECDSA_SHA512 }
    const ring = Array.from({ length: 9 }, () => makeIssuer('crowd', { ...signer, parent: signer }).der)
    return { chain: [leaf(signer), ...ring], roots: Array.from({ length: 100 }, () => crowded('P-384').der) }
  },
  'nine CAs that all certify each other, each too short a path for the others': () => {
    const signer = { subject: forge.name('crowd'), key: corpus.ecKey(), scheme: forge.ECDSA_SHA256 }
    const extensions = [forge.basicConstraints({ ca: true, pathLength: 9 }), forge.keyUsage(5)]
    const ring = Array.from({ length: 9 }, () => makeIssuer('crowd', { ...signer, extensions, parent: signer }).der)
    return { chain: [leaf(signer), ...ring], roots: [crowded('P-256').der] }
  },
  'fifteen thousand names, under a hundred roots that constrain names': () => {
    const bases = Array.from({ length: 10 }, (_, index) => sequence(forge.dns(`x${index}.example`)))
    const constraints = extension('2.5.29.30', sequence(der(0xa0, ...bases)))
    const extensions = [forge.basicConstraints({ ca: true }), forge.keyUsage(5, 6), constraints]
    const roots = Array.from({ length: 100 }, () => makeIssuer('crowd', { extensions }))
    const [signer = crowded('P-256')] = roots
    const names = [forge.uri(corpus.identity), ...Array<Buffer>(15_000).fill(forge.dns('a'))]
    const named = { ...corpus.LEAF_EXTENSIONS, subjectAltName: forge.subjectAltName(...names) }
    return { chain: [leaf(signer, { extensions: Object.values(named) })], roots: roots.map(({ der }) => der) }
  },
}

/** CPU time of this process, milliseconds: the machine that runs the tests has other things to do. */
function cpuTimeOf(run: () => void): number {
  const start = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}

const crowded = (curve: string) => makeIssuer('crowd', { key: corpus.ecKey(curve), scheme: forge.ECDSA_SHA384 })

for (const [what, crowd] of Object.entries(CROWDS)) {
  for (const [who, verifier] of Object.entries({ natively: native, 'by Node': nodeCertificateVerifier })) {
    // Only the addon looks at name constraints.
    if (what.includes('constrain names') && verifier === nodeCertificateVerifier) continue
    test(`${what}: refused ${who} within 50 ms of CPU time`, () => {
      const answer = crowd()
      const chain = answer.chain.map(der => derToPem(der, 'CERTIFICATE'))
      const expected = expectationOf(answer)
      const times = [1, 2, 3].map(() =>
        cpuTimeOf(() => assert.throws(() => verifier.verify(chain, expected), /does not lead/)),
      )
      assert.ok(Math.min(...times) < 50, `it took ${times.map(time => time.toFixed(1))} ms`)
    })
  }
}
