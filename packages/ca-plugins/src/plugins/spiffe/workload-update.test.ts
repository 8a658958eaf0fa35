import assert from 'node:assert/strict'
import { test } from 'node:test'
import { derToPem } from '@livery/core/plugin'
import { isCAError } from '../../../test/citadel-setup.ts'
import { X509BundlesResponse, X509SVIDResponse } from '../../gen/spiffe/workload/workload.ts'
import { readBundles, readSvidUpdate, wipe } from './workload-update.ts'

const ANSWER = { action: 'get identities', remedy: 'Check the address' }
const WEB = 'spiffe://cluster.local/web'
/** DER elements of three lengths, which is as much as is read here. */
const [LEAF, ISSUER, ROOT] = [element(110), element(200), element(300)]

function element(length: number): Buffer {
  const header = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([0x30, ...header]), Buffer.alloc(length, 7)])
}

const pem = (der: Buffer) => derToPem(der, 'CERTIFICATE')

function svid(parts: Partial<X509SVIDResponse['svids'][number]> = {}) {
  const x509Svid = Buffer.concat([LEAF, ISSUER])
  return { spiffeId: WEB, x509Svid, x509SvidKey: Buffer.from('key'), bundle: ROOT, hint: '', ...parts }
}

const encoded = (...svids: readonly ReturnType<typeof svid>[]) =>
  Buffer.from(X509SVIDResponse.encode({ svids: [...svids] }).finish())

test('certificates are taken apart, the root left out of the chain, and the message wiped', () => {
  const bytes = encoded(svid({ x509Svid: Buffer.concat([LEAF, ISSUER, ROOT]) }))
  const { svids } = readSvidUpdate(bytes, ANSWER)
  assert.deepEqual([...svids.keys()], [WEB])
  const read = svids.get(WEB)
  assert.deepEqual(read?.chain, [LEAF, ISSUER])
  assert.deepEqual(read.roots, [pem(ROOT)])
  assert.equal(
    read.privateKey.open(key => Buffer.from(key).toString()),
    'key',
  )
  assert.ok(bytes.every(byte => byte === 0))
  wipe({ svids })
  assert.equal(read.privateKey.isWiped, true)
})

test('of several with the same identity the first holds', () => {
  const { svids } = readSvidUpdate(encoded(svid(), svid({ x509Svid: ISSUER })), ANSWER)
  assert.deepEqual(svids.get(WEB)?.chain, [LEAF, ISSUER])
})

const BAD: readonly (readonly [what: string, bytes: Buffer, says: RegExp])[] = [
  ['no identity', encoded(), /no identity/],
  ['no SPIFFE ID', encoded(svid({ spiffeId: 'spiffe://X/y' })), /not a SPIFFE ID/],
  ['no certificate', encoded(svid({ x509Svid: Buffer.alloc(0) })), /has 0 certificates for spiffe/],
  ['eleven certificates', encoded(svid({ x509Svid: Buffer.concat(Array(11).fill(LEAF)) })), /has 11 certificates/],
  ['no key', encoded(svid({ x509SvidKey: Buffer.alloc(0) })), /no key/],
  ['half a certificate', encoded(svid({ x509Svid: ISSUER.subarray(0, 100) })), /not DER/],
  ['a bundle that is not DER', encoded(svid({ bundle: Buffer.from('-----BEGIN') })), /the bundle of .* not DER/],
  ['an indefinite length', encoded(svid({ bundle: Buffer.from([0x30, 0x80, 0, 0]) })), /not DER/],
  ['empty elements', encoded(svid({ bundle: Buffer.alloc(1_000, Buffer.from([0x30, 0])) })), /not a certificate/],
  ['a page of HTML', Buffer.from('<!DOCTYPE html>'), /not a message|no identity/],
  ['half a message', encoded(svid()).subarray(0, 40), /not a message/],
]
for (const [what, bytes, says] of BAD)
  test(`refused: ${what}`, () => {
    const message = Buffer.from(bytes)
    assert.throws(() => readSvidUpdate(message, ANSWER), says)
    assert.ok(message.every(byte => byte === 0))
  })

test('bundles are read by trust domain, and one under another name is refused', () => {
  const encode = (id: string) =>
    Buffer.from(X509BundlesResponse.encode({ bundles: new Map([[id, Buffer.concat([ROOT, ISSUER])]]) }).finish())
  assert.deepEqual([...readBundles(encode('spiffe://a.example'), ANSWER)], [['a.example', [pem(ROOT), pem(ISSUER)]]])
  assert.throws(() => readBundles(encode('spiffe://a/b'), ANSWER), /not a trust domain/)
})

const MEGABYTE = 1_048_576
const bundleOfMany = (root: Buffer, count: number) =>
  Buffer.from(X509BundlesResponse.encode({ bundles: new Map([['spiffe://a', repeated(root, count)]]) }).finish())

function repeated(bytes: Buffer, count: number): Buffer {
  return Buffer.alloc(bytes.length * count, bytes)
}

test('of the longest bundle no more is read than core needs to see that it is too long', () => {
  const [bundle = []] = readBundles(bundleOfMany(element(98), 160_000), ANSWER).values()
  assert.equal(bundle.length, 101)
  const [large = []] = readBundles(bundleOfMany(element(60_000), 260), ANSWER).values()
  const length = large.join('').length
  assert.ok(length > MEGABYTE && length < 1.5 * MEGABYTE, `read ${length} characters`)
})

/** Forms of the longest message that would take seconds, and gigabytes, to read as a whole. */
const COSTLY: readonly (readonly [what: string, bytes: Buffer, says: RegExp])[] = [
  ['empty identities', repeated(Buffer.from([0x0a, 0]), 8 * MEGABYTE), /more than 5000 parts/],
  ['an identity of empty fields', within(0x0a, repeated(Buffer.from([0x12, 0]), 8 * MEGABYTE - 4)), /many fields/],
  ['unknown fields', repeated(Buffer.from([0x78, 0]), 8 * MEGABYTE), /more than 5000 parts/],
  ['a group', repeated(Buffer.from([0x7b, 0x7c]), 8 * MEGABYTE), /many fields/],
  [
    'identities with a bundle of their own each',
    encoded(...Array.from({ length: 1_000 }, (_, n) => svid({ spiffeId: `${WEB}/${n}`, bundle: bundleOf(n) }))),
    /more than 20000 certificates/,
  ],
]
for (const [what, bytes, says] of COSTLY)
  test(`refused before it costs much: ${what}`, () => {
    const message = Buffer.from(bytes)
    assert.throws(() => readSvidUpdate(message, ANSWER), says)
    assert.ok(message.every(byte => byte === 0))
  })

function bundleOf(number: number): Buffer {
  const bundle = repeated(element(98), 100)
  bundle.writeUInt32BE(number, 10)
  return bundle
}

/** A field with the tag `tag`. */
function within(tag: number, content: Buffer): Buffer {
  const { length } = content
  const varint = [length & 0x7f, (length >> 7) & 0x7f, (length >> 14) & 0x7f, length >> 21]
  return Buffer.concat([Buffer.from([tag, ...varint.map((byte, at) => (at < 3 ? byte | 0x80 : byte))]), content])
}

test('too many trust domains are refused', () => {
  const bundles = new Map(Array.from({ length: 5_001 }, (_, number) => [`spiffe://d${number}`, ROOT]))
  const message = Buffer.from(X509BundlesResponse.encode({ bundles }).finish())
  assert.throws(() => readBundles(message, ANSWER), /more than 5000 parts/)
})

test('a message that is cut, or has a wrong byte, is read or refused', () => {
  const whole = encoded(svid(), svid({ spiffeId: `${WEB}/2` }))
  for (const length of whole.keys()) readOrRefuse(whole.subarray(0, length))
  for (const [index, byte] of whole.entries()) {
    for (const other of [0, 0x80, 0xff, byte ^ 1]) {
      const wrong = Buffer.from(whole)
      wrong[index] = other
      readOrRefuse(wrong)
    }
  }
})

function readOrRefuse(bytes: Buffer): void {
  for (const read of [(each: Buffer) => readBundles(each, ANSWER), (each: Buffer) => readSvidUpdate(each, ANSWER)])
    try {
      read(Buffer.from(bytes))
    } catch (error) {
      isCAError('bad-response')(error)
    }
}
