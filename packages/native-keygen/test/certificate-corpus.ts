/** Answers of CAs, good and each with one fault: what a verifier says to them is the same for every engine. */
import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto'
import type { Expectation } from '@livery/core'
import * as forge from './certificate-forge.ts'

const { der, sequence, extension } = forge
const MINUTE = 60_000
const HOUR = 60 * MINUTE

export const now = Date.UTC(2026, 10, 21, 12, 0, 0, 500)
export const identity = 'spiffe://cluster.local/ns/default/sa/web'

export interface Issuer extends forge.Signer {
  readonly der: Buffer
}

export const ecKey = (namedCurve = 'P-256') => generateKeyPairSync('ec', { namedCurve }).privateKey
export const rsaKey = (modulusLength = 2048) => generateKeyPairSync('rsa', { modulusLength }).privateKey

export function validity(from: number, to: number): Buffer {
  return sequence(forge.time(from), forge.time(to))
}

type Overrides = Partial<forge.Parts>

const CA_CONSTRAINTS = forge.basicConstraints({ ca: true })
const CA_KEY_USAGE = forge.keyUsage(5, 6)
const CA_EXTENSIONS = [CA_CONSTRAINTS, CA_KEY_USAGE]

/** A CA certificate, self-signed without a parent. */
export function makeIssuer(
  commonName: string,
  {
    parent,
    key = ecKey(),
    scheme = forge.ECDSA_SHA256,
    ...parts
  }: { parent?: forge.Signer; key?: KeyObject; scheme?: forge.SignatureScheme } & Overrides = {},
): Issuer {
  const self = { subject: parts.subject ?? forge.name(commonName), key, scheme }
  const tbs = forge.tbsCertificate(
    {
      validity: validity(now - HOUR, now + 1_000 * HOUR),
      subject: self.subject,
      publicKey: forge.spki(key),
      extensions: CA_EXTENSIONS,
      ...parts,
    },
    parent ?? self,
  )
  return { ...self, der: forge.signed(tbs, parent ?? self) }
}

export const leafKey = ecKey()
export const root = makeIssuer('root')
export const middle = makeIssuer('middle', { parent: root })
const low = makeIssuer('low', { parent: middle })

export const LEAF_EXTENSIONS = {
  basicConstraints: forge.basicConstraints({ ca: false }),
  keyUsage: forge.keyUsage(0),
  extendedKeyUsage: forge.extendedKeyUsage(forge.SERVER_AUTH, forge.CLIENT_AUTH),
  subjectAltName: forge.subjectAltName(forge.uri(identity)),
}

/** The signed part of a good leaf, but for what is overridden. */
export function leafTbs(issuer: forge.Signer, parts: Overrides = {}): Buffer {
  return forge.tbsCertificate(
    {
      validity: validity(now - MINUTE, now + HOUR),
      subject: forge.NO_NAME,
      publicKey: forge.spki(leafKey),
      extensions: Object.values(LEAF_EXTENSIONS),
      ...parts,
    },
    issuer,
  )
}

export const leaf = (issuer: forge.Signer, parts: Overrides = {}) => forge.signed(leafTbs(issuer, parts), issuer)

/** The TBSCertificate of a certificate that is longer than 255 bytes. */
export function signedPartOf(certificate: Buffer): Buffer {
  return certificate.subarray(4, 8 + certificate.readUInt16BE(6))
}

const withExtension = (...more: readonly Buffer[]) => ({ extensions: [...Object.values(LEAF_EXTENSIONS), ...more] })
const withExtensions = (changed: Partial<typeof LEAF_EXTENSIONS>) => ({
  extensions: Object.values({ ...LEAF_EXTENSIONS, ...changed }),
})
const withNames = (...names: readonly Buffer[]) => withExtensions({ subjectAltName: forge.subjectAltName(...names) })
const withDates = (from: number, to: number) => ({ validity: validity(from, to) })

export interface Case {
  readonly chain: readonly Buffer[]
  readonly roots?: readonly Buffer[]
  readonly key?: Expectation['key']
  /** The reason of the refusal; absent: both accept. */
  readonly refused?: RegExp
}

export function expectationOf({ roots = [root.der], key }: Pick<Case, 'roots' | 'key'>): Expectation {
  return {
    identity,
    key: key ?? { publicKeyDer: forge.spki(leafKey) },
    anchors: roots.map(der => new X509Certificate(der)),
    now,
  }
}

const other = forge.uri('spiffe://cluster.local/ns/default/sa/other')
const SAN_CHARACTERS = /hold characters that no SPIFFE ID has/
const NO_PATH = /does not lead to any of the \d known roots/

function identityCases(): Record<string, Case> {
  const chain = (...names: readonly Buffer[]) => [leaf(root, withNames(...names))]
  const own = forge.uri(identity)
  const only = (...extensions: readonly Buffer[]) => [leaf(root, { extensions })]
  return {
    'another identity': { chain: chain(other), refused: /carries URI:.*other instead of/ },
    'two URI names': { chain: chain(own, other), refused: /carries 2 URI names/ },
    'the identity twice': { chain: chain(own, own), refused: /carries 2 URI names/ },
    'no URI name': { chain: chain(forge.dns('web.default.svc')), refused: /carries 0 URI names/ },
    'no name at all': { chain: chain(), refused: /carries 0 URI names/ },
    'no subject alternative name': { chain: only(LEAF_EXTENSIONS.keyUsage), refused: /carries 0 URI names/ },
    'an identity that goes on': { chain: chain(forge.uri(`${identity}/x`)), refused: /instead of the identity/ },
    'an identity in capitals': { chain: chain(forge.uri(identity.toUpperCase())), refused: /instead of the identity/ },
    'an identity with a port': {
      chain: chain(forge.uri(identity.replace('local', 'local:80'))),
      refused: /instead of the identity/,
    },
    'an identity that ends in NUL': { chain: chain(forge.uri(`${identity}\0`)), refused: SAN_CHARACTERS },
    'an identity, then a line': { chain: chain(forge.uri(`${identity}\n`)), refused: SAN_CHARACTERS },
    'a URI name that is empty': { chain: chain(forge.uri('')), refused: /carries URI: instead of/ },
    'a DNS name beside it': { chain: chain(forge.dns('web.default.svc'), own) },
    'a mail address beside it': { chain: chain(der(0x81, 'web@example.com'), own) },
    'an IP address beside it': { chain: chain(der(0x87, Buffer.of(10, 0, 0, 1)), own) },
    'a registered ID beside it': { chain: chain(der(0x88, Buffer.of(0x2a, 0x03)), own) },
    'a user principal name beside it': {
      chain: chain(der(0xa0, forge.oid('1.3.6.1.4.1.311.20.2.3'), der(0xa0, der(0x0c, 'web@example.com'))), own),
    },
    'a DNS name that reads as two names': { chain: chain(forge.dns(`x, URI:${identity}`)), refused: SAN_CHARACTERS },
    'the same beside the real one': { chain: chain(own, forge.dns('x, URI:spiffe://a/b')), refused: SAN_CHARACTERS },
    'a DNS name that quotes': { chain: chain(own, forge.dns('x"y')), refused: SAN_CHARACTERS },
    'a principal name that reads as two names': {
      chain: chain(der(0xa0, forge.oid('1.3.6.1.4.1.311.20.2.3'), der(0xa0, der(0x0c, `x, URI:${identity}`))), own),
      refused: SAN_CHARACTERS,
    },
    'a directory name of two parts beside it': {
      chain: chain(own, der(0xa4, sequence(...['a', 'b'].map(text => forge.name(text).subarray(2))))),
      refused: SAN_CHARACTERS,
    },
  }
}

/** SubjectPublicKeyInfo that OpenSSL reads and cannot write. */
const NO_POINT = sequence(
  sequence(forge.oid('1.2.840.10045.2.1'), forge.oid('1.2.840.10045.3.1.7')),
  der(0x03, Buffer.of(0, 0)),
)

function keyAndDateCases(): Record<string, Case> {
  const dated = (from: number, to: number) => [leaf(root, withDates(from, to))]
  const pem = (key: KeyObject, type: 'pkcs8' | 'sec1' | 'pkcs1') =>
    Buffer.from(key.export({ format: 'pem', type }).toString())
  const rsa = rsaKey()
  const rsaChain = [leaf(root, { publicKey: forge.spki(rsa) })]
  const chain = [leaf(root)]
  const parameters = Buffer.from('-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n')
  return {
    'another key': { chain, key: { publicKeyDer: forge.spki(ecKey()) }, refused: /for another key/ },
    'a key of another kind': { chain, key: { publicKeyDer: forge.spki(rsa) }, refused: /for another key/ },
    'a key that is a point at infinity': {
      chain: [leaf(root, { publicKey: NO_POINT })],
      refused: /for another key/,
    },
    'its own key as PKCS#8': { chain, key: { privateKeyPem: pem(leafKey, 'pkcs8') } },
    'its own key as SEC1': { chain, key: { privateKeyPem: pem(leafKey, 'sec1') } },
    'its own key after EC PARAMETERS': {
      chain,
      key: { privateKeyPem: Buffer.concat([parameters, pem(leafKey, 'sec1')]) },
    },
    'its own RSA key as PKCS#8': { chain: rsaChain, key: { privateKeyPem: pem(rsa, 'pkcs8') } },
    'its own RSA key as PKCS#1': { chain: rsaChain, key: { privateKeyPem: pem(rsa, 'pkcs1') } },
    'the private key of another': {
      chain,
      key: { privateKeyPem: pem(ecKey(), 'pkcs8') },
      refused: /belongs to another certificate/,
    },
    'a private key of another kind': {
      chain,
      key: { privateKeyPem: pem(rsa, 'pkcs1') },
      refused: /belongs to another certificate/,
    },
    'a private key of another curve': {
      chain,
      key: { privateKeyPem: pem(ecKey('P-384'), 'pkcs8') },
      refused: /belongs to another certificate/,
    },
    'a private key that is none': { chain, key: { privateKeyPem: Buffer.from('junk') }, refused: /does not parse/ },
    'an encrypted private key': {
      chain,
      key: {
        privateKeyPem: Buffer.from(
          leafKey.export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'x' }).toString(),
        ),
      },
      refused: /does not parse/,
    },
    expired: { chain: dated(now - HOUR, now - MINUTE), refused: /has expired/ },
    'expired this second': { chain: dated(now - HOUR, now - 500), refused: /has expired/ },
    'valid for half a second more': { chain: dated(now - HOUR, now + 500) },
    'not valid yet': { chain: dated(now + 6 * MINUTE, now + HOUR), refused: /only more than 5 minutes from now/ },
    'valid in five minutes': { chain: dated(now + 5 * MINUTE, now + HOUR) },
    'dates the wrong way round': { chain: dated(now + 2 * MINUTE, now + MINUTE), refused: /ends before it begins/ },
    'no time at all': { chain: dated(now, now), refused: /ends before it begins/ },
    'no end (RFC 5280: 9999)': { chain: dated(now - HOUR, Date.UTC(9999, 11, 31, 23, 59, 59)) },
    'dates in 2049 and 2050': { chain: dated(now - HOUR, Date.UTC(2050, 0, 1)) },
  }
}

export function corpus(): Record<string, Case> {
  return {
    ...identityCases(),
    ...keyAndDateCases(),
    ...usageAndFormCases(),
    ...pathCases(),
    ...issuerRuleCases(),
    ...nameConstraintCases(),
    ...algorithmCases(),
  }
}

function usageAndFormCases(): Record<string, Case> {
  const good = leaf(root)
  const serial = (...bytes: readonly number[]) => ({ chain: [leaf(root, { serial: der(0x02, Buffer.from(bytes)) })] })
  return {
    'a good leaf': { chain: [good] },
    'a leaf with a subject': { chain: [leaf(root, { subject: forge.name('web') })] },
    'a leaf with an empty common name': { chain: [leaf(root, { subject: forge.name('') })] },
    'a leaf with a name in UCS-2': {
      chain: [leaf(root, { subject: forge.name(Buffer.from('web', 'utf16le').swap16(), 0x1e) })],
    },
    'a CA certificate': {
      chain: [leaf(root, withExtensions({ basicConstraints: CA_CONSTRAINTS, keyUsage: CA_KEY_USAGE }))],
      refused: /is a CA certificate/,
    },
    'a CA certificate that may not sign': {
      chain: [leaf(root, withExtensions({ basicConstraints: CA_CONSTRAINTS }))],
      refused: /is a CA certificate/,
    },
    'server authentication alone': {
      chain: [leaf(root, withExtensions({ extendedKeyUsage: forge.extendedKeyUsage(forge.SERVER_AUTH) }))],
      refused: /extended key usage lacks/,
    },
    'any extended key usage': {
      chain: [leaf(root, withExtensions({ extendedKeyUsage: forge.extendedKeyUsage('2.5.29.37.0') }))],
      refused: /extended key usage lacks/,
    },
    'no extended key usage': {
      chain: [leaf(root, { extensions: [LEAF_EXTENSIONS.subjectAltName] })],
    },
    'an unknown extension': {
      chain: [leaf(root, withExtension(extension('1.3.6.1.4.1.99999.1', Buffer.of(1, 2, 3))))],
    },
    'a small serial number': serial(1),
    'the serial number 0': serial(0),
    'a serial number with its top bit set': serial(0, 0xff, 1),
    'a negative serial number': { ...serial(0x80, 1), refused: /not a PEM certificate that can be relied on/ },
    'the serial number -1': { ...serial(0xff), refused: /not a PEM certificate that can be relied on/ },
    'no certificate': { chain: [Buffer.from('junk')], refused: /element 0 of the chain is not a PEM certificate/ },
    'no certificate behind the leaf': { chain: [good, Buffer.from([0x30, 0x00])], refused: /element 1 of the chain/ },
    'half a certificate': { chain: [good.subarray(0, good.length / 2)], refused: /element 0 of the chain/ },
    'no chain': { chain: [], refused: /the chain is empty/ },
    'too many certificates': { chain: Array<Buffer>(11).fill(good), refused: /11 certificates, more than 10/ },
    'too long a chain': { chain: [good, Buffer.alloc(60_000)], refused: /longer than 65536/ },
  }
}

function pathCases(): Record<string, Case> {
  const below = leaf(low)
  const stranger = makeIssuer('stranger')
  const namesake = makeIssuer('root')
  const expired = makeIssuer('middle', { parent: root, validity: validity(now - 2 * HOUR, now - HOUR) })
  const early = makeIssuer('middle', { parent: root, validity: validity(now + HOUR, now + 2 * HOUR) })
  const soon = makeIssuer('middle', { parent: root, validity: validity(now + 4 * MINUTE, now + HOUR) })
  const noCa = makeIssuer('middle', { parent: root, extensions: [forge.basicConstraints({ ca: false })] })
  const noConstraints = makeIssuer('middle', { parent: root, extensions: [forge.keyUsage(5)] })
  const noSigner = makeIssuer('middle', {
    parent: root,
    extensions: [forge.basicConstraints({ ca: true }), forge.keyUsage(0)],
  })
  const pointless = makeIssuer('middle', { parent: root, publicKey: NO_POINT })
  const limited = (pathLength: number, parent?: Issuer) =>
    makeIssuer('limited', { ...(parent && { parent }), extensions: [forge.basicConstraints({ ca: true, pathLength })] })
  const tight = limited(0, root)
  const underTight = makeIssuer('under tight', { parent: tight })
  const tightRoot = limited(0)
  const underTightRoot = makeIssuer('middle', { parent: tightRoot })
  const renewed = makeIssuer('limited', { parent: limited(1, root), subject: forge.name('limited') })
  // The same CA twice: certified by a stranger, and by the root.
  const crossed = makeIssuer('crossed', { parent: stranger })
  const crossedByRoot = makeIssuer('crossed', { parent: root, key: crossed.key })
  const expiredRoot = makeIssuer('root', { validity: validity(now - 2 * HOUR, now - HOUR) })
  const flipped = Buffer.from(leaf(root))
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1
  return {
    'one intermediate': { chain: [leaf(middle), middle.der] },
    'two intermediates': { chain: [below, low.der, middle.der] },
    'two intermediates in the wrong order': { chain: [below, middle.der, low.der] },
    'strangers, twins and the root among them': {
      chain: [below, stranger.der, middle.der, middle.der, root.der, low.der, low.der],
    },
    'the leaf itself among them': { chain: [below, below, low.der, middle.der] },
    'the root behind the leaf': { chain: [leaf(root), root.der] },
    'an intermediate missing': { chain: [below, middle.der], refused: NO_PATH },
    'an unknown root': { chain: [leaf(stranger), stranger.der], refused: NO_PATH },
    'no root known': { chain: [leaf(root)], roots: [], refused: /any of the 0 known roots/ },
    'another root of the same name': { chain: [leaf(namesake)], refused: NO_PATH },
    'two roots of the same name': { chain: [leaf(namesake)], roots: [root.der, namesake.der] },
    'an expired root': { chain: [leaf(expiredRoot)], roots: [expiredRoot.der], refused: NO_PATH },
    'an expired intermediate': { chain: [leaf(expired), expired.der], refused: NO_PATH },
    'an intermediate that is not valid yet': { chain: [leaf(early), early.der], refused: NO_PATH },
    'an intermediate that is valid in four minutes': { chain: [leaf(soon), soon.der] },
    'an intermediate that is not a CA': { chain: [leaf(noCa), noCa.der], refused: NO_PATH },
    'an intermediate without basic constraints': { chain: [leaf(noConstraints), noConstraints.der], refused: NO_PATH },
    'an intermediate that may not sign': { chain: [leaf(noSigner), noSigner.der], refused: NO_PATH },
    'an intermediate whose key is a point at infinity': { chain: [leaf(middle), pointless.der], refused: NO_PATH },
    'a path as long as allowed': { chain: [leaf(tight), tight.der] },
    'a path longer than allowed': { chain: [leaf(underTight), underTight.der, tight.der], refused: NO_PATH },
    'a path longer than the root allows': {
      chain: [leaf(underTightRoot), underTightRoot.der],
      roots: [tightRoot.der],
      refused: NO_PATH,
    },
    'an unrelated CA that only shares the name': { chain: [leaf(renewed), renewed.der], refused: NO_PATH },
    'a cross certificate of a stranger first': { chain: [leaf(crossed), crossed.der, crossedByRoot.der, stranger.der] },
    'a cross certificate of the root first': { chain: [leaf(crossed), crossedByRoot.der, crossed.der, stranger.der] },
    'a signature with one bit changed': { chain: [flipped], refused: NO_PATH },
    'the signature of another': { chain: [forge.signed(leafTbs(root), stranger)], refused: NO_PATH },
    'the key identifier of another issuer': { ...keyIdentifierCase(Buffer.of(9, 9, 9)), refused: NO_PATH },
    'the key identifier of its issuer': keyIdentifierCase(Buffer.of(1, 2, 3)),
  }
}

/** A leaf below an intermediate with these extensions more, and what is wrong with that. */
function belowMiddle(extensions: readonly Buffer[], refused?: RegExp, parts: Overrides = {}): Case {
  const issuer = makeIssuer('middle', { parent: root, extensions: [...CA_EXTENSIONS, ...extensions] })
  return { chain: [leaf(issuer, parts), issuer.der], ...(refused && { refused }) }
}

function issuerRuleCases(): Record<string, Case> {
  const codeSigning = forge.extendedKeyUsage('1.3.6.1.5.5.7.3.3')
  const any = forge.extendedKeyUsage('2.5.29.37.0')
  const tls = LEAF_EXTENSIONS.extendedKeyUsage
  const usage = (...bits: readonly number[]): Case => ({
    chain: [leaf(root, withExtensions({ keyUsage: forge.keyUsage(...bits) }))],
  })
  const NO_USAGE = /element 1 of the chain has an extended key usage without server and client authentication/
  const NO_EXTENSION = /element 1 of the chain has an extension that is malformed, repeated, unknown and critical/
  const strictRoot = makeIssuer('strict root', { extensions: [...CA_EXTENSIONS, codeSigning] })
  const nobody = makeIssuer('', { parent: root, subject: forge.NO_NAME })
  const good = makeIssuer('crossed twice', { parent: root })
  const forCode = makeIssuer('crossed twice', {
    parent: root,
    key: good.key,
    extensions: [...CA_EXTENSIONS, codeSigning],
  })
  const selfIssued = makeIssuer('tight', {
    parent: root,
    extensions: [forge.basicConstraints({ ca: true, pathLength: 0 }), CA_KEY_USAGE],
  })
  const renewedKey = makeIssuer('tight', { parent: selfIssued })
  const twoAlgorithms = makeIssuer('two algorithms', { algorithm: forge.ECDSA_SHA384.algorithm })
  return {
    'an intermediate for code signing': belowMiddle([codeSigning], NO_USAGE),
    'an intermediate for server authentication alone': belowMiddle(
      [forge.extendedKeyUsage(forge.SERVER_AUTH)],
      NO_USAGE,
    ),
    'an intermediate for any usage': belowMiddle([any], NO_USAGE),
    'an intermediate for both kinds of authentication': belowMiddle([tls]),
    'a root for code signing': {
      chain: [leaf(strictRoot)],
      roots: [strictRoot.der],
      refused: /the root with serial [0-9a-f]+ has an extended key usage without/,
    },
    'the intermediate for code signing first, the good one behind': { chain: [leaf(good), forCode.der, good.der] },
    'the good one first, the intermediate for code signing behind': { chain: [leaf(good), good.der, forCode.der] },
    'a leaf that may encipher only': { ...usage(2), refused: /key usage lacks digitalSignature/ },
    'a leaf that may sign certificates': { ...usage(0, 5), refused: /key usage has keyCertSign or cRLSign/ },
    'a leaf that may sign revocation lists': { ...usage(0, 6), refused: /key usage has keyCertSign or cRLSign/ },
    'a leaf for signatures and key encipherment': usage(0, 2),
    'a leaf with an Ed25519 key': otherKey(generateKeyPairSync('ed25519').privateKey),
    'a leaf with an RSA-1024 key': otherKey(rsaKey(1024)),
    'a leaf on secp256k1': otherKey(ecKey('secp256k1')),
    'a path length without a CA': {
      chain: [leaf(root, withExtensions({ basicConstraints: forge.basicConstraints({ ca: false, pathLength: 0 }) }))],
      refused: /not a PEM certificate that can be relied on/,
    },
    'an unknown critical extension above': belowMiddle(
      [extension('1.2.3.4', Buffer.of(5, 0), { critical: true })],
      NO_EXTENSION,
    ),
    'constraints on policies': belowMiddle([extension('2.5.29.36', sequence(der(0x80, Buffer.of(0))))], NO_EXTENSION),
    'a policy': belowMiddle([extension('2.5.29.32', sequence(sequence(forge.oid('1.2.3.4'))), { critical: true })]),
    'an issuer without a name': { chain: [leaf(nobody), nobody.der], refused: NO_PATH },
    'a self-issued intermediate where none is allowed': {
      chain: [leaf(renewedKey), renewedKey.der, selfIssued.der],
      refused: /allows fewer intermediates below it/,
    },
    'a root that names two algorithms': {
      chain: [leaf(twoAlgorithms)],
      roots: [twoAlgorithms.der],
      refused: /or one that the certificate does not name/,
    },
  }
}

function otherKey(key: KeyObject): Case {
  const publicKey = forge.spki(key)
  return {
    chain: [leaf(root, { publicKey })],
    key: { publicKeyDer: publicKey },
    refused: /its key is not one that every TLS peer takes/,
  }
}

function nameConstraintCases(): Record<string, Case> {
  const subtree = (tag: number, base: string | Buffer) => sequence(der(tag, base))
  const uriTree = (base: string) => subtree(0x86, base)
  const dnsTree = (base: string) => subtree(0x82, base)
  const constrain = (permitted: readonly Buffer[], excluded: readonly Buffer[] = [], critical = true) =>
    extension(
      '2.5.29.30',
      sequence(
        ...(permitted.length > 0 ? [der(0xa0, ...permitted)] : []),
        ...(excluded.length > 0 ? [der(0xa1, ...excluded)] : []),
      ),
      { critical },
    )
  const FORBIDDEN = /element 1 of the chain forbids a name of a certificate below it/
  const UNSUPPORTED = /element 1 of the chain has an extension that is malformed/
  const withDns = (name: string) => withNames(forge.uri(identity), forge.dns(name))
  const withIp = (...bytes: readonly number[]) => withNames(forge.uri(identity), der(0x87, Buffer.from(bytes)))
  const ten = subtree(0x87, Buffer.of(10, 0, 0, 0, 255, 0, 0, 0))
  const constrainedRoot = makeIssuer('constrained', {
    extensions: [...CA_EXTENSIONS, constrain([uriTree('example.com')])],
  })
  const many = Array.from({ length: 200 }, (_, index) => dnsTree(`a${index}.example`))
  const manyNames = withNames(
    forge.uri(identity),
    ...Array.from({ length: 200 }, (_, index) => forge.dns(`b${index}.example`)),
  )
  return {
    'its trust domain is permitted': belowMiddle([constrain([uriTree('cluster.local')])]),
    'its trust domain is permitted in capitals': belowMiddle([constrain([uriTree('CLUSTER.Local')])]),
    'the parent of its trust domain is permitted': belowMiddle([constrain([uriTree('.local')])]),
    'another trust domain is permitted': belowMiddle([constrain([uriTree('example.com')])], FORBIDDEN),
    'the same, not critical': belowMiddle([constrain([uriTree('example.com')], [], false)], FORBIDDEN),
    'a host above its trust domain is permitted, not those below': belowMiddle(
      [constrain([uriTree('local')])],
      FORBIDDEN,
    ),
    'its trust domain is excluded': belowMiddle([constrain([], [uriTree('cluster.local')])], FORBIDDEN),
    'a host above its trust domain is excluded': belowMiddle([constrain([], [uriTree('local')])], FORBIDDEN),
    'another trust domain is excluded': belowMiddle([constrain([], [uriTree('example.com')])]),
    'the root permits another trust domain': {
      chain: [leaf(constrainedRoot)],
      roots: [constrainedRoot.der],
      refused: /the root with serial [0-9a-f]+ forbids a name/,
    },
    'its DNS name is permitted': belowMiddle([constrain([dnsTree('svc')])], undefined, withDns('web.svc')),
    'its DNS name is not permitted': belowMiddle([constrain([dnsTree('com')])], FORBIDDEN, withDns('web.svc')),
    'its DNS name is excluded': belowMiddle([constrain([], [dnsTree('svc')])], FORBIDDEN, withDns('web.svc')),
    'a wildcard covers an excluded name': belowMiddle([constrain([], [dnsTree('a.svc')])], FORBIDDEN, withDns('*.svc')),
    'its common name is an excluded DNS name': belowMiddle([constrain([], [dnsTree('svc')])], FORBIDDEN, {
      subject: forge.name('web.svc'),
    }),
    'its address is permitted': belowMiddle([constrain([ten])], undefined, withIp(10, 1, 2, 3)),
    'its address is not permitted': belowMiddle([constrain([ten])], FORBIDDEN, withIp(11, 1, 2, 3)),
    'constraints on mail names, and none there': belowMiddle([constrain([subtree(0x81, 'example.com')])]),
    'constraints on mail names, and one there': belowMiddle(
      [constrain([subtree(0x81, 'example.com')])],
      FORBIDDEN,
      withNames(forge.uri(identity), der(0x81, 'web@example.com')),
    ),
    'constraints on directory names': belowMiddle([constrain([sequence(der(0xa4, forge.name('x')))])], UNSUPPORTED),
    'constraints that say nothing': belowMiddle([constrain([])], UNSUPPORTED),
    'more comparisons than are made': belowMiddle(
      [constrain(many)],
      /too many that share a name or constrain names/,
      manyNames,
    ),
  }
}

function keyIdentifierCase(authority: Buffer): Case {
  const parent = makeIssuer('identified', {
    extensions: [...CA_EXTENSIONS, extension('2.5.29.14', der(0x04, Buffer.of(1, 2, 3)))],
  })
  const chain = [leaf(parent, withExtension(extension('2.5.29.35', sequence(der(0x80, authority)))))]
  return { chain, roots: [parent.der] }
}

function algorithmCases(): Record<string, Case> {
  const under = (options: Parameters<typeof makeIssuer>[1]): Case => {
    const parent = makeIssuer('parent', options)
    const child = makeIssuer('child', { ...options, key: options?.key ?? ecKey(), parent })
    return { chain: [leaf(child), child.der], roots: [parent.der] }
  }
  const rsa = rsaKey()
  const wrongSalt = { ...forge.rsaPss(256), algorithm: forge.rsaPss(256, 20).algorithm }
  return {
    'P-256 with SHA-512': under({ scheme: forge.ECDSA_SHA512 }),
    'P-384 with SHA-384': under({ key: ecKey('P-384'), scheme: forge.ECDSA_SHA384 }),
    'P-384 with SHA-256': under({ key: ecKey('P-384') }),
    'P-521 with SHA-512': under({ key: ecKey('P-521'), scheme: forge.ECDSA_SHA512 }),
    Ed25519: under({ key: generateKeyPairSync('ed25519').privateKey, scheme: forge.ED25519 }),
    'RSA-2048 with SHA-256': under({ key: rsa, scheme: forge.RSA_SHA256 }),
    'RSA-3072 with SHA-256': under({ key: rsaKey(3072), scheme: forge.RSA_SHA256 }),
    'RSA-PSS with SHA-256': under({ key: rsa, scheme: forge.rsaPss(256) }),
    'RSA-PSS with SHA-384': under({ key: rsa, scheme: forge.rsaPss(384) }),
    'RSA-PSS with SHA-512': under({ key: rsa, scheme: forge.rsaPss(512) }),
    'RSA-PSS with another salt than it says': { ...under({ key: rsa, scheme: wrongSalt }), refused: NO_PATH },
    'another algorithm inside than outside': {
      chain: [leaf(root, { algorithm: forge.ECDSA_SHA384.algorithm })],
      refused: NO_PATH,
    },
  }
}
