import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, type KeyPairKeyObjectResult, sign } from 'node:crypto'
import { test } from 'node:test'
import { CAError } from '@livery/core/plugin'
import { workloadRequest } from '../../testing/workload-request.ts'
import { verifiedRequest } from './certificate-request.ts'

import { bitString, element, integer, objectIdentifier, sequence } from './der.ts'

const NULL = element(0x05)
const ECDSA = (hash: 2 | 3 | 4) => sequence(objectIdentifier(`1.2.840.10045.4.3.${hash}`))
const RSA = (hash: 11 | 12 | 13) => sequence(objectIdentifier(`1.2.840.113549.1.1.${hash}`), NULL)
const SET = 0x31
const NO_ATTRIBUTES = element(0xa0)

const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })

interface Parts {
  readonly keys?: KeyPairKeyObjectResult
  readonly hash?: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  readonly algorithm?: Buffer
  readonly version?: Buffer
  readonly subject?: Buffer
  /** Replaces the public key of `keys`. */
  readonly publicKey?: Buffer
  /** Elements after the public key. */
  readonly attributes?: readonly Buffer[]
  /** Elements after the signature. */
  readonly more?: readonly Buffer[]
  readonly signature?: (signature: Buffer) => Buffer
}

/** A request that is right, but for what `parts` says. */
function request({
  keys = p256,
  hash = 'sha256',
  algorithm = ECDSA(2),
  version = integer(Buffer.of(0)),
  subject = sequence(),
  publicKey = spki(keys),
  attributes = [NO_ATTRIBUTES],
  more = [],
  signature = bitString,
}: Parts = {}): Buffer {
  const info = sequence(version, subject, publicKey, ...attributes)
  return sequence(info, algorithm, signature(sign(hash, info, keys.privateKey)), ...more)
}

function spki({ publicKey }: KeyPairKeyObjectResult): Buffer {
  return publicKey.export({ type: 'spki', format: 'der' })
}

function isRefused(reason: RegExp) {
  return (error: unknown) => error instanceof CAError && error.code === 'invalid-csr' && reason.test(error.message)
}

async function verifiedPublicKey(csr: Uint8Array): Promise<Uint8Array> {
  return (await verifiedRequest(csr)).publicKey
}

test('a request by each kind of key with each hash is accepted, and its key is returned byte for byte', async () => {
  const hashes = ['sha256', 'sha384', 'sha512'] as const
  for (const [index, hash] of hashes.entries()) {
    const ecdsa = ECDSA(([2, 3, 4] as const)[index] ?? 2)
    for (const [keys, algorithm] of [
      [p256, ecdsa],
      [p384, ecdsa],
      [rsa, RSA(([11, 12, 13] as const)[index] ?? 11)],
    ] as const)
      assert.deepEqual(await verifiedPublicKey(request({ keys, hash, algorithm })), spki(keys))
  }
})

test('a request may name a subject and attributes, or have no attributes at all', async () => {
  const name = element(SET, sequence(objectIdentifier('2.5.4.3'), element(0x0c, Buffer.from('web'))))
  const password = sequence(objectIdentifier('1.2.840.113549.1.9.7'), element(SET, element(0x0c, Buffer.from('x'))))
  const cases: readonly Parts[] = [
    { subject: sequence(name) },
    { attributes: [element(0xa0, password)] },
    { attributes: [] },
  ]
  for (const parts of cases) assert.deepEqual(await verifiedPublicKey(request(parts)), spki(p256))
})

const whole = request()
const NOT_ONE: readonly (readonly [string, Uint8Array])[] = [
  ['nothing', Buffer.alloc(0)],
  ['half of it', whole.subarray(0, whole.length / 2)],
  ['a byte behind it', Buffer.concat([whole, Buffer.of(0)])],
  ['an indefinite length', Buffer.from([0x30, 0x80, 0x04, 0x00, 0x00, 0x00])],
  ['an element beyond its end', Buffer.from([0x30, 0x02, 0x04, 0x05])],
  ['a length with a leading zero', Buffer.concat([Buffer.from([0x30, 0x82, 0]), whole.subarray(2)])],
  ['a fourth part', request({ more: [NULL] })],
  ['a fifth field', request({ attributes: [NO_ATTRIBUTES, NULL] })],
  ['attributes under another tag', request({ attributes: [element(0xa1)] })],
  ['an attribute of three parts', request({ attributes: [element(0xa0, sequence(NULL, NULL, NULL))] })],
  ['another version', request({ version: integer(Buffer.of(1)) })],
  ['a subject that is no sequence', request({ subject: NULL })],
  ['a subject of other things', request({ subject: sequence(NULL) })],
  ['a signature of seven bits', request({ signature: bytes => element(0x03, Buffer.of(1), bytes, Buffer.of(0)) })],
]
for (const [what, csr] of NOT_ONE)
  test(`${what} is not a PKCS#10 request`, () =>
    assert.rejects(verifiedPublicKey(csr), isRefused(/not a PKCS#10 request/)))

const explicit = generateKeyPairSync('ec', { namedCurve: 'P-256', paramEncoding: 'explicit' })
for (const [what, keys] of [
  ['P-521', generateKeyPairSync('ec', { namedCurve: 'P-521' })],
  ['P-256 with its parameters written out', explicit],
  ['RSA for PSS alone', generateKeyPairSync('rsa-pss', { modulusLength: 2048 })],
] as const)
  test(`a key on ${what} is refused`, () =>
    assert.rejects(verifiedPublicKey(request({ keys })), isRefused(/key is neither RSA nor ECDSA on P-256 or P-384/)))

const [P256, RSA_KEY] = [
  Buffer.from('301306072a8648ce3d020106082a8648ce3d030107', 'hex'),
  Buffer.from('300d06092a864886f70d0101010500', 'hex'),
]

/** The point of a key on P-256 in another form (SEC 1, section 2.3.3). */
function pointIn(form: 'compressed' | 'hybrid'): Buffer {
  const point = spki(p256).subarray(-65)
  const isOdd = (point.at(-1) ?? 0) & 1
  return form === 'compressed'
    ? Buffer.concat([Buffer.of(2 + isOdd), point.subarray(1, 33)])
    : Buffer.concat([Buffer.of(6 + isOdd), point.subarray(1)])
}

for (const form of ['compressed', 'hybrid'] as const)
  test(`a point in ${form} form is refused`, () =>
    assert.rejects(
      verifiedPublicKey(request({ publicKey: sequence(P256, bitString(pointIn(form))) })),
      isRefused(/key is a point in compressed or hybrid form/),
    ))

test('bytes behind a point are refused, inside of its key and after it', async () => {
  const point = spki(p256).subarray(-65)
  const longer = sequence(P256, bitString(Buffer.concat([point, Buffer.of(0)])))
  await assert.rejects(verifiedPublicKey(request({ publicKey: longer })), isRefused(/key cannot be read/))
  const three = sequence(P256, bitString(point), NULL)
  await assert.rejects(verifiedPublicKey(request({ publicKey: three })), isRefused(/not a PKCS#10 request/))
})

test('bytes behind an RSA key are refused', async () => {
  const publicKey = sequence(RSA_KEY, bitString(Buffer.concat([rsaKey(65_537n), Buffer.from('behind')])))
  const csr = request({ keys: rsa, algorithm: RSA(11), publicKey })
  await assert.rejects(verifiedPublicKey(csr), isRefused(/key has another encoding than DER gives it/))
})

/** The modulus of `rsa` with another exponent. */
function rsaKey(exponent: bigint): Buffer {
  const { n = '' } = rsa.publicKey.export({ format: 'jwk' })
  const bytes = Buffer.from(exponent.toString(16).padStart(8, '0'), 'hex')
  return sequence(positive(Buffer.from(n, 'base64url')), positive(bytes))
}

function positive(bytes: Buffer): Buffer {
  const digits = bytes.subarray(bytes.findIndex(byte => byte !== 0))
  return integer((digits[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), digits]) : digits)
}

/** PKCS #1 v1.5 (RFC 8017, section 9.2): what a signature with the exponent 1 is. */
function encodedHash(info: Buffer): Buffer {
  const digest = createHash('sha256').update(info).digest()
  const hash = sequence(sequence(objectIdentifier('2.16.840.1.101.3.4.2.1'), NULL), element(0x04, digest))
  const padding = Buffer.alloc(256 - 3 - hash.length, 0xff)
  return Buffer.concat([Buffer.of(0, 1), padding, Buffer.of(0), hash])
}

for (const exponent of [1n, 3n, 65_535n, 65_538n])
  test(`an RSA key with the exponent ${exponent} is refused`, async () => {
    const publicKey = sequence(RSA_KEY, bitString(rsaKey(exponent)))
    const info = sequence(integer(Buffer.of(0)), sequence(), publicKey, NO_ATTRIBUTES)
    // An exponent of 1 makes this a signature, without any private key.
    const csr = sequence(info, RSA(11), bitString(encodedHash(info)))
    await assert.rejects(
      verifiedPublicKey(csr),
      isRefused(/exponent of its RSA key is not an odd number from 65537 on/),
    )
  })

test('a signature by another algorithm, or with a hash that is weak, is refused', async () => {
  const sha1 = sequence(objectIdentifier('1.2.840.10045.4.1'))
  const cases: readonly Parts[] = [
    { algorithm: RSA(11) },
    { keys: rsa },
    { hash: 'sha1', algorithm: sha1 },
    { keys: rsa, hash: 'sha1', algorithm: sequence(objectIdentifier('1.2.840.113549.1.1.5'), NULL) },
  ]
  for (const parts of cases)
    await assert.rejects(verifiedPublicKey(request(parts)), isRefused(/signature algorithm is neither/))
})

test('a signature by another key, or with another hash than it says, is refused', async () => {
  const info = sequence(integer(Buffer.of(0)), sequence(), spki(p256), NO_ATTRIBUTES)
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signed = (hash: string) => sequence(info, ECDSA(2), bitString(sign(hash, info, other.privateKey)))
  const unsigned = sequence(info, ECDSA(2), bitString(Buffer.alloc(0)))
  for (const csr of [signed('sha256'), request({ hash: 'sha384' }), unsigned])
    await assert.rejects(verifiedPublicKey(csr), isRefused(/signature is not by the key that it holds/))
})

test('no byte of a request can be another one', async () => {
  const { csrDer } = await workloadRequest('spiffe://cluster.local/ns/default/sa/web')
  for (const index of csrDer.keys()) {
    const changed = Buffer.from(csrDer)
    changed[index] = (changed[index] ?? 0) ^ 1
    await assert.rejects(verifiedPublicKey(changed), isRefused(/./), `byte ${index}`)
  }
})

test('bytes that change while a signature is verified change nothing', async () => {
  for (const csr of [request(), request({ keys: rsa, algorithm: RSA(11) })]) {
    const key = await verifiedPublicKey(Buffer.from(csr))
    const verifying = verifiedPublicKey(csr)
    csr.fill(0)
    assert.deepEqual(await verifying, key)
  }
})
