/** Chains of certificates with some rule of RFC 5280 varied in some place: seeded, so that a chain can be made again. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import * as forge from './certificate-forge.ts'
import { ecKey, identity, LEAF_EXTENSIONS, leafKey, now, rsaKey, validity } from './corpus/certificates.ts'

const { der, sequence, extension } = forge
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

export interface GeneratedChain {
  /** The variation, and its place. */
  readonly what: string
  /** Leaf first, the others shuffled. */
  readonly chain: readonly Buffer[]
  readonly roots: readonly Buffer[]
  /** The leaf's, SubjectPublicKeyInfo. */
  readonly publicKeyDer: Buffer
}

/** A number in [0, `below`). */
type Draw = (below: number) => number

/** mulberry32 (public domain). */
export function seeded(seed: number): Draw {
  let state = seed
  return below => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below
  }
}

type Role = 'leaf' | 'intermediate' | 'root'

/** The parts of a certificate before it is signed. */
interface Plan {
  readonly role: Role
  key: KeyObject
  scheme: forge.SignatureScheme
  subject: Buffer
  issuer?: Buffer
  version?: Buffer
  serial?: Buffer
  /** AlgorithmIdentifier inside, where it is another than outside. */
  algorithm?: Buffer
  from: number
  to: number
  publicKey?: Buffer
  readonly extensions: Map<string, Buffer>
}

type Variation = (plan: Plan, draw: Draw) => void

const P256 = Array.from({ length: 6 }, () => ecKey())
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

const pick = <T>(draw: Draw, list: readonly T[]): T => list[Math.floor(draw(list.length))] as T

const put =
  (name: string, ...choices: readonly (Buffer | undefined)[]): Variation =>
  ({ extensions }, draw) => {
    const chosen = pick(draw, choices)
    if (chosen) extensions.set(name, chosen)
    else extensions.delete(name)
  }

/** An extension that is critical or not, whatever it is supposed to be. */
const both = (id: string, value: Buffer) => [
  extension(id, value, { critical: true }),
  extension(id, value, { critical: false }),
]

const usages = (...lists: readonly (readonly string[])[]) => lists.map(list => forge.extendedKeyUsage(...list))
const ANY = '2.5.29.37.0'
const CODE_SIGNING = '1.3.6.1.5.5.7.3.3'
const BOTH_USAGES = [forge.SERVER_AUTH, forge.CLIENT_AUTH]

const subtree = (tag: number, base: string | Buffer, ...range: readonly Buffer[]) => sequence(der(tag, base), ...range)
const network = (...bytes: readonly number[]) => Buffer.from(bytes)

const URI_BASES = [
  'cluster.local',
  '.cluster.local',
  '.local',
  'local',
  'example.com',
  '.example.com',
  'sub.cluster.local',
  'CLUSTER.local',
  '',
  '127.0.0.1',
  'clusterxlocal',
]
const DNS_BASES = [
  'svc',
  '.svc',
  'default.svc',
  'web.default.svc',
  '.web.default.svc',
  'example.com',
  '',
  'SVC',
  'ault.svc',
  '*.svc',
]
const IP_BASES = [
  network(10, 0, 0, 0, 255, 0, 0, 0),
  network(10, 0, 0, 1, 255, 255, 255, 255),
  network(192, 168, 0, 0, 255, 255, 0, 0),
  network(0, 0, 0, 0, 0, 0, 0, 0),
  network(10, 0, 0, 0, 255, 0, 255, 0),
  Buffer.alloc(32),
]
const EMAIL_BASES = ['example.com', '.example.com', 'web@example.com', 'other.com']

function nameConstraints(draw: Draw): Buffer {
  const one = () => {
    const range = draw(12) < 1 ? [der(0x80, Buffer.of(1))] : []
    const kind = draw(20)
    if (kind < 10) return subtree(0x86, pick(draw, URI_BASES), ...range)
    if (kind < 15) return subtree(0x82, pick(draw, DNS_BASES), ...range)
    if (kind < 17) return subtree(0x87, pick(draw, IP_BASES), ...range)
    if (kind < 18) return subtree(0x81, pick(draw, EMAIL_BASES), ...range)
    if (kind < 19) return sequence(der(0xa4, forge.name('x')))
    return subtree(0x88, Buffer.of(0x2a, 3))
  }
  const list = (tag: number) => der(tag, ...Array.from({ length: 1 + Math.floor(draw(2)) }, one))
  const shape = draw(20)
  const lists = shape < 8 ? [list(0xa0)] : shape < 15 ? [list(0xa1)] : shape < 19 ? [list(0xa0), list(0xa1)] : []
  return extension('2.5.29.30', sequence(...lists), { critical: draw(4) > 1 })
}

const own = forge.uri(identity)
const LEAF_NAMES = [
  [own, forge.dns('web.default.svc')],
  [own, forge.dns('*.default.svc')],
  [own, forge.dns('web.example.com'), forge.dns('WEB.default.svc')],
  [own, der(0x87, network(10, 0, 0, 1))],
  [own, der(0x87, network(192, 168, 1, 1))],
  [own, der(0x87, Buffer.alloc(16, 1))],
  [own, der(0x87, Buffer.alloc(5, 1))],
  [own, der(0x81, 'web@example.com')],
  [own, forge.dns('web.default.svc.')],
  [own, forge.dns('a..b')],
  [own, der(0x88, Buffer.of(0x2a, 3))],
]
const CA_NAMES = [
  [forge.uri('spiffe://cluster.local')],
  [forge.uri('spiffe://other.local/x')],
  [forge.dns('ca.default.svc')],
  [der(0x87, network(10, 9, 9, 9))],
  [der(0x88, Buffer.of(0x2a, 3))],
  [forge.uri('http://[::1')],
  [forge.uri('spiffe://a..b/c')],
  [],
]

/** The variations of any certificate. */
const ANYWHERE: Record<string, Variation> = {
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
}

export const VARIATIONS = Object.keys(ANYWHERE)

const identifierOf = (key: KeyObject) => forge.spki(key).subarray(-20)

/** A certificate that even `openssl verify -x509_strict` likes. */
function goodPlan(role: Role, index: number, key: KeyObject, below: boolean): Plan {
  const extensions = new Map<string, Buffer>(
    role === 'leaf'
      ? Object.entries(LEAF_EXTENSIONS)
      : [
          ['basicConstraints', forge.basicConstraints({ ca: true })],
          ['keyUsage', forge.keyUsage(5, 6)],
        ],
  )
  if (role !== 'leaf') extensions.set('subjectKey', extension('2.5.29.14', der(0x04, identifierOf(key))))
  const subject = role === 'leaf' ? forge.NO_NAME : forge.name(`CA ${index}`)
  const to = below ? now + DAY : now + 1_000 * DAY
  return { role, key, scheme: forge.ECDSA_SHA256, subject, from: now - HOUR, to, extensions }
}

function signPlan(plan: Plan, parent: Plan): Buffer {
  const signer = { subject: plan.issuer ?? parent.subject, key: parent.key, scheme: parent.scheme }
  const extensions = new Map(plan.extensions)
  const parentIdentifier = parent.extensions.get('subjectKey')
  if (plan !== parent && parentIdentifier && !extensions.has('identifiers')) {
    extensions.set('authorityKey', extension('2.5.29.35', sequence(der(0x80, parentIdentifier.subarray(-20)))))
  }
  const tbs = forge.tbsCertificate(
    {
      ...(plan.version && { version: plan.version }),
      ...(plan.serial && { serial: plan.serial }),
      ...(plan.algorithm && { algorithm: plan.algorithm }),
      validity: validity(plan.from, plan.to),
      subject: plan.subject,
      publicKey: plan.publicKey ?? forge.spki(plan.key),
      extensions: [...extensions.values()],
    },
    signer,
  )
  return forge.signed(tbs, signer)
}

/** A leaf, none to three intermediates and a root, with up to three variations; often with a second way to a root. */
export function generateChain(seed: number): GeneratedChain {
  const draw = seeded(seed)
  const intermediates = Math.floor(draw(4))
  const plans = [
    goodPlan('leaf', 0, leafKey, true),
    ...Array.from({ length: intermediates }, (_, index) =>
      goodPlan('intermediate', index + 2, P256[index + 1] ?? leafKey, false),
    ),
    goodPlan('root', 1, P256[0] ?? leafKey, false),
  ]
  const what: string[] = []
  for (let left = Math.floor(draw(3.5)); left > 0; left--) {
    const [plan, name] = [pick(draw, plans), pick(draw, VARIATIONS)]
    ANYWHERE[name]?.(plan, draw)
    what.push(`${name} of the ${plan.role}`)
  }
  const signed = plans.map((plan, index) => signPlan(plan, plans[index + 1] ?? plan))
  const [leaf = Buffer.alloc(0), ...above] = signed
  const roots = above.splice(-1)
  if (intermediates > 0 && draw(3) < 1) addSecondWay(plans, above, roots, draw, what)
  const [own] = plans
  return {
    what: what.join(', ') || 'nothing',
    chain: [leaf, ...shuffle(above, draw)],
    roots: shuffle(roots, draw),
    publicKeyDer: own?.publicKey ?? forge.spki(own?.key ?? leafKey),
  }
}

/** One intermediate certified again, by a second root: another path, good or with a separate fault. */
function addSecondWay(plans: readonly Plan[], above: Buffer[], roots: Buffer[], draw: Draw, what: string[]): void {
  const second = goodPlan('root', 9, P256[5] ?? leafKey, false)
  const again = pick(draw, plans.slice(1, -1))
  const fresh = { ...goodPlan('intermediate', 0, again.key, false), scheme: again.scheme, subject: again.subject }
  if (draw(2) < 1) {
    const name = pick(draw, VARIATIONS)
    ANYWHERE[name]?.(fresh, draw)
    what.push(`${name} of a second way`)
  } else {
    what.push('a second way')
  }
  above.push(signPlan(fresh, second))
  roots.push(signPlan(second, second))
}

function shuffle<T>(list: readonly T[], draw: Draw): T[] {
  return list
    .map(value => [draw(1), value] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, value]) => value)
}
