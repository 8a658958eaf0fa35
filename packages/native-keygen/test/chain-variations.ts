/** The variations of a certificate: what a chain of the generator can have wrong, or only unusual, in some place. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import * as forge from './certificate-forge.ts'
import { ecKey, now, rsaKey } from './corpus/certificates.ts'
import { CA_NAMES, LEAF_NAMES, nameConstraints, own } from './name-variations.ts'
import { both, pick, put, type Variation } from './variation.ts'

const { der, sequence, extension } = forge
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const OTHERS = {
  p384: [ecKey('P-384'), forge.ECDSA_SHA384],
  p521: [ecKey('P-521'), forge.ECDSA_SHA512],
  rsa2048: [rsaKey(2048), forge.RSA_SHA256],
  rsa3072pss: [rsaKey(3072), forge.rsaPss(256)],
  ed25519: [generateKeyPairSync('ed25519').privateKey, forge.ED25519],
  secp256k1: [ecKey('secp256k1'), forge.ECDSA_SHA256],
  p224: [ecKey('P-224'), forge.ECDSA_SHA256],
  rsa1024: [rsaKey(1024), forge.RSA_SHA256],
  rsaSha1: [rsaKey(2048), forge.RSA_SHA1],
} as const satisfies Record<string, readonly [KeyObject, forge.SignatureScheme]>

const usages = (...lists: readonly (readonly string[])[]) => lists.map(list => forge.extendedKeyUsage(...list))
const ANY = '2.5.29.37.0'
const CODE_SIGNING = '1.3.6.1.5.5.7.3.3'
const BOTH_USAGES = [forge.SERVER_AUTH, forge.CLIENT_AUTH]

/** The variations of any certificate. */
export const ANYWHERE: Record<string, Variation> = {
  'key usage': put(
    'keyUsage',
    undefined,
    forge.keyUsage(0),
    forge.keyUsage(5),
    forge.keyUsage(6),
    forge.keyUsage(5, 6),
    forge.keyUsage(0, 2),
    forge.keyUsage(0, 5),
    forge.keyUsage(2),
    forge.keyUsage(4),
    extension('2.5.29.15', der(0x03, Buffer.of(0)), { critical: true }),
  ),
  'extended key usage': put(
    'extendedKeyUsage',
    undefined,
    ...usages(
      BOTH_USAGES,
      [forge.SERVER_AUTH],
      [forge.CLIENT_AUTH],
      [CODE_SIGNING],
      [ANY],
      [...BOTH_USAGES, ANY],
      [...BOTH_USAGES, CODE_SIGNING],
      [],
    ),
  ),
  'basic constraints': put(
    'basicConstraints',
    undefined,
    forge.basicConstraints({ ca: true }),
    forge.basicConstraints({ ca: false }),
    forge.basicConstraints({ ca: false, pathLength: 0 }),
    extension('2.5.29.19', sequence(der(0x01, Buffer.of(0xff)))),
  ),
  'path length': ({ extensions, role }, draw) => {
    if (role === 'leaf') return
    const pathLength = pick(draw, [0, 0, 1, 2, 127])
    extensions.set('basicConstraints', forge.basicConstraints({ ca: true, pathLength }))
  },
  'an unknown extension': put('unknown', ...both('1.3.6.1.4.1.99999.1', Buffer.of(5, 0))),
  'a known extension that is critical or not': put(
    'known',
    ...both('2.5.29.31', sequence(sequence(der(0xa0, der(0xa0, forge.uri('http://crl.example.com')))))),
    ...both('1.3.6.1.5.5.7.1.1', sequence(sequence(forge.oid('1.3.6.1.5.5.7.48.1'), forge.uri('http://ocsp')))),
    ...both('2.5.29.46', sequence(sequence(der(0xa0, der(0xa0, forge.uri('http://crl.example.com')))))),
  ),
  policies: put(
    'policies',
    ...both('2.5.29.32', sequence(sequence(forge.oid('1.2.3.4')))),
    extension('2.5.29.32', sequence(sequence(forge.oid('1.2.3.4')), sequence(forge.oid('1.2.3.4')))),
    ...both('2.5.29.36', sequence(der(0x80, Buffer.of(0)))),
    ...both('2.5.29.54', der(0x02, Buffer.of(0))),
    ...both('2.5.29.33', sequence(sequence(forge.oid('1.2.3.4'), forge.oid('1.2.3.5')))),
  ),
  'netscape type': put(
    'netscape',
    ...[0x80, 0x40, 0xc0, 0x20].flatMap(bits => both('2.16.840.1.113730.1.1', der(0x03, Buffer.of(5, bits)))),
  ),
  'key identifiers': put(
    'identifiers',
    ...both('2.5.29.14', der(0x04, Buffer.of(9, 9, 9))),
    ...both('2.5.29.35', sequence(der(0x80, Buffer.of(8, 8, 8)))),
  ),
  'an extension twice': ({ extensions }) => {
    for (const name of ['twice', 'twice more']) extensions.set(name, extension('1.2.3.4', Buffer.of(5, 0)))
  },
  'name constraints': ({ extensions }, draw) => void extensions.set('nameConstraints', nameConstraints(draw)),
  names: ({ extensions, role }, draw) => {
    const names = sequence(...pick(draw, role === 'leaf' ? LEAF_NAMES : CA_NAMES))
    extensions.set('subjectAltName', extension('2.5.29.17', names, { critical: draw(2) < 1 }))
  },
  subject: (plan, draw) => {
    const email = sequence(forge.oid('1.2.840.113549.1.9.1'), der(0x16, 'web@example.com'))
    plan.subject = pick(draw, [
      forge.NO_NAME,
      forge.name('web.example.com'),
      forge.name('web.default.svc'),
      forge.name('ROOT'),
      sequence(der(0x31, email)),
    ])
  },
  'the issuer in another form': (plan, draw) => {
    plan.issuer = pick(draw, [forge.name('CA 1', 0x13), forge.name('ca 1'), forge.name('CA  1'), forge.name('another')])
  },
  dates: (plan, draw) => {
    const [from, to] = pick(draw, [
      [now - HOUR, now - MINUTE],
      [now - HOUR, now + MINUTE],
      [now - HOUR, now + HOUR],
      [now + 2 * MINUTE, now + DAY],
      [now + 10 * MINUTE, now + DAY],
      [now - 2 * DAY, now + 1_000 * DAY],
      [now + HOUR, now - HOUR],
    ] as const)
    Object.assign(plan, { from, to })
  },
  'another key': (plan, draw) => {
    const [key, scheme] = pick(draw, Object.values(OTHERS))
    Object.assign(plan, { key, scheme })
  },
  'a strange RSA key': (plan, draw) => {
    const bits = pick(draw, [1_024, 2_047, 2_048, 4_096, 8_192, 8_200, 16_384])
    const exponent = pick(draw, [Buffer.of(3), Buffer.of(1), Buffer.of(2), Buffer.of(1, 0, 1), Buffer.of(1, 0, 3)])
    const modulus = Buffer.alloc(Math.ceil(bits / 8), 0xff)
    if (bits % 8 > 0) modulus[0] = 0x7f
    const key = sequence(der(0x02, ...(bits % 8 > 0 ? [] : [Buffer.of(0)]), modulus), der(0x02, exponent))
    const algorithm = sequence(forge.oid('1.2.840.113549.1.1.1'), ...(draw(4) < 1 ? [] : [der(0x05)]))
    plan.publicKey = sequence(algorithm, der(0x03, Buffer.of(0), key))
  },
  'a serial number': (plan, draw) => {
    plan.serial = der(0x02, pick(draw, [Buffer.of(0), Buffer.of(0x80), Buffer.alloc(20, 1), Buffer.alloc(22, 1)]))
  },
  version: (plan, draw) => {
    plan.version = der(0xa0, der(0x02, Buffer.of(pick(draw, [0, 1, 3]))))
    if (draw(2) < 1) plan.extensions.clear()
  },
  'another algorithm inside than outside': plan => {
    plan.algorithm = forge.ECDSA_SHA384.algorithm
  },
  'parameters of the algorithm': plan => {
    const [id = Buffer.alloc(0)] = [plan.scheme.algorithm.subarray(2)]
    const bare = id.subarray(0, 2 + (id[1] ?? 0))
    plan.scheme = { ...plan.scheme, algorithm: id.length > bare.length ? sequence(bare) : sequence(bare, der(0x05)) }
  },
  'BER in the signed part': (plan, draw) => {
    plan.form = pick(draw, [
      forge.paddedLength,
      tbs => Buffer.concat([Buffer.of(0x30, 0x80), tbs.subarray(tbs.length > 259 ? 4 : 3), Buffer.of(0, 0)]),
      tbs => replaced(tbs, der(0x01, Buffer.of(0xff)), der(0x01, Buffer.of(1))),
    ])
  },
  'bytes after it': (plan, draw) => {
    const more = pick(draw, [Buffer.of(0), Buffer.of(5, 0)])
    if (draw(2) < 1) plan.whole = certificate => Buffer.concat([certificate, more])
    else plan.form = tbs => sequence(tbs.subarray(tbs.length > 259 ? 4 : 3), more)
  },
  'a damaged signature': (plan, draw) => {
    const bit = pick(draw, [0, 1])
    plan.whole = certificate => {
      const flipped = Buffer.from(certificate)
      const at = bit === 0 ? flipped.length - 1 : flipped.length - 20
      flipped[at] = (flipped[at] ?? 0) ^ 1
      return flipped
    }
  },
  'dates in another form': (plan, draw) => {
    const [from, to] = [forge.time(now - HOUR), forge.time(now + DAY)]
    const general = (text: string) => der(0x18, text)
    plan.form = pick(draw, [
      tbs => withDates(tbs, general('20261101000000Z'), to),
      tbs => withDates(tbs, der(0x17, '690101000000Z'), to),
      tbs => withDates(tbs, general('19490101000000Z'), to),
      tbs => withDates(tbs, der(0x17, '2611010000Z'), to),
      tbs => withDates(tbs, der(0x17, '261101000000+0000'), to),
      tbs => withDates(tbs, general('20261101000000.5Z'), to),
      tbs => withDates(tbs, from, general('99991231235959Z')),
      tbs => withDates(tbs, from, der(0x17, '261131000000Z')),
    ])
  },
  'a long path length': ({ extensions, role }, draw) => {
    if (role === 'leaf') return
    const limit = pick(draw, [
      Buffer.of(1, 0),
      Buffer.of(0x7f, 0xff, 0xff),
      Buffer.alloc(9, 1),
      Buffer.of(0xff),
      Buffer.of(0, 1),
    ])
    const constraints = sequence(der(0x01, Buffer.of(0xff)), der(0x02, limit))
    extensions.set('basicConstraints', extension('2.5.29.19', constraints, { critical: true }))
  },
  'a name in another string': (plan, draw) => {
    plan.subject = pick(draw, [
      forge.name(Buffer.of(0, 0x77, 0xff, 0xfe), 0x1e),
      forge.name(Buffer.of(0, 0x77, 0xd8, 0), 0x1e),
      forge.name(Buffer.of(0, 0x77, 0, 0x65), 0x1e),
      forge.name(Buffer.of(0x77), 0x1e),
      forge.name(Buffer.of(0, 0, 0, 0x77), 0x1c),
      forge.name(Buffer.of(0xc3), 0x0c),
      forge.name(Buffer.of(0xc3), 0x14),
      forge.name('a@b', 0x13),
      forge.name(Buffer.of(0xe9), 0x16),
      forge.name('web', 0x12),
      forge.name('', 0x0c),
      forge.name(Buffer.of(1), 0x02),
    ])
  },
  'an unusual name': (plan, draw) => {
    const attribute = (id: string, text: string) => sequence(forge.oid(id), der(0x0c, text))
    plan.subject = pick(draw, [
      sequence(der(0x31)),
      sequence(der(0x31, attribute('2.5.4.3', 'a'), attribute('2.5.4.10', 'b'))),
      sequence(der(0x31, attribute('2.5.4.10', 'b'), attribute('2.5.4.3', 'a'))),
      sequence(der(0x31, attribute('2.5.4.6', 'DE')), der(0x31, attribute('2.5.4.10', 'b'))),
      sequence(der(0x31, attribute('1.2.3.4.5', 'x'))),
      sequence(der(0x31, sequence(forge.oid('2.5.4.3')))),
    ])
  },
  'unique identifiers': (plan, draw) => {
    plan.identifiers = pick(draw, [der(0x81, Buffer.of(0, 7)), der(0x82, Buffer.of(0, 7)), der(0x81, Buffer.of(9, 7))])
    if (draw(3) < 1) plan.version = der(0xa0, der(0x02, Buffer.of(1)))
  },
  'the issuer by its serial number': put(
    'identifiers',
    ...[forge.name('CA 1'), forge.name('CA 2'), forge.name('nobody')].flatMap(name =>
      both('2.5.29.35', sequence(der(0xa1, der(0xa4, name)), der(0x82, Buffer.of(1)))),
    ),
    extension('2.5.29.35', sequence(der(0xa1, der(0xa4, forge.name('CA 1'))))),
    extension('2.5.29.35', sequence()),
  ),
  'an extension of another form': put(
    'extra',
    extension('2.5.29.14', Buffer.of(4, 1, 7, 5, 0)),
    extension('2.5.29.14', Buffer.of(4, 2, 7)),
    sequence(forge.oid('1.2.3.4'), der(0x01, Buffer.of(0)), der(0x04, Buffer.of(5, 0))),
    extension('1.2.3.4', Buffer.alloc(0)),
    sequence(forge.oid('1.2.3.4')),
    extension('2.5.29.17', sequence(own)),
  ),
  'no extension in the list': plan => {
    plan.extensions.clear()
    plan.identifiers = der(0xa3, sequence())
  },
  'a rare extension': put(
    'rare',
    ...both('1.3.6.1.5.5.7.1.24', sequence(der(0x02, Buffer.of(5)))),
    ...both('1.3.6.1.4.1.11129.2.4.3', der(0x05)),
    ...both('1.3.6.1.5.5.7.1.14', sequence(sequence(forge.oid('1.3.6.1.5.5.7.21.1')))),
    ...both('2.5.29.18', sequence(forge.uri('http://ca'))),
    ...both('2.5.29.9', sequence(sequence(forge.oid('1.2.3.4'), der(0x31, der(0x0c, 'x'))))),
    ...both('2.5.29.16', sequence(der(0x80, '20260101000000Z'))),
    ...both('1.3.6.1.5.5.7.48.1.5', der(0x05)),
    ...both('2.5.29.28', sequence()),
  ),
  'a key usage of another form': put(
    'keyUsage',
    ...both('2.5.29.15', der(0x03, Buffer.of(0, 0x86))),
    ...both('2.5.29.15', der(0x03, Buffer.of(1, 0x87))),
    ...both('2.5.29.15', der(0x03, Buffer.of(7, 0x86, 0x80))),
    ...both('2.5.29.15', der(0x03, Buffer.of(8, 0x86))),
  ),
  'an EC key of another form': (plan, draw) => {
    const publicKey = forge.spki(plan.key)
    const point = publicKey.subarray(-65)
    if (point[0] !== 4) return
    const compressed = Buffer.concat([Buffer.of(2 + ((point.at(-1) ?? 0) & 1)), point.subarray(1, 33)])
    const id = forge.oid('1.2.840.10045.2.1')
    const curve = forge.oid('1.2.840.10045.3.1.7')
    plan.publicKey = pick(draw, [
      sequence(sequence(id, curve), der(0x03, Buffer.of(0), compressed)),
      sequence(sequence(id), der(0x03, Buffer.of(0), point)),
      sequence(sequence(id, der(0x05)), der(0x03, Buffer.of(0), point)),
      sequence(sequence(id, forge.oid('1.3.132.0.34')), der(0x03, Buffer.of(0), point)),
      sequence(sequence(id, curve), der(0x03, Buffer.of(0), Buffer.of(0))),
      sequence(sequence(id, curve), der(0x03, Buffer.of(1), point)),
    ])
  },
  'the name of its issuer': (plan, draw) => {
    plan.subject = forge.name(pick(draw, ['CA 1', 'CA 2']))
  },
}

/** The dates of a certificate that are UTCTimes, replaced by others. */
function withDates(tbs: Buffer, from: Buffer, to: Buffer): Buffer {
  const at = tbs.indexOf(Buffer.of(0x30, 30, 0x17, 13))
  return at < 0 ? tbs : replaced(tbs, tbs.subarray(at, at + 32), sequence(from, to))
}

/** The signed part with `old` replaced where it first stands, if it does so at its top level. */
function replaced(tbs: Buffer, old: Buffer, by: Buffer): Buffer {
  const start = tbs.length > 259 ? 4 : 3
  const at = tbs.indexOf(old, start)
  if (at < 0) return tbs
  return sequence(tbs.subarray(start, at), by, tbs.subarray(at + old.length))
}

export const VARIATIONS = Object.keys(ANYWHERE)
