import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { property, string, assert as verify } from 'fast-check'
import { Secret } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { scrubPeerText } from './scrub-peer-text.ts'

const SUMMARY = /\.\.\. \(\d+ characters, sha256 [0-9a-f]{8}\)$/

for (const text of [
  'Failed to load certificate chain from <inline>',
  'Failed to load private key from <inline>, Cause: error:0b000074:X.509 certificate routines:OPENSSL_internal:KEY_VALUES_MISMATCH',
  'Failed to load incomplete private key from path: ',
  'DataSource cannot be empty',
  '',
]) {
  test(`what Envoy says of a bad secret is kept: ${JSON.stringify(text)}`, () => {
    assert.equal(scrubPeerText(text), text)
  })
}

test('the text ends where key material could begin, with its length and a hash', () => {
  assert.match(scrubPeerText('bad secret -----BEGIN EC PRIVATE KEY-----\nAAAA'), /^bad secret \.\.\. \(46 characters/)
  assert.equal(scrubPeerText('a -----BEGIN X'), scrubPeerText('a -----BEGIN X'))
  assert.notEqual(scrubPeerText('a -----BEGIN X'), scrubPeerText('a -----BEGIN Y'))
})

test('the text is one printable line of some 200 characters', () => {
  const scrubbed = scrubPeerText(`a\nb\r\tc \u001b[31m "quoted" \u202e ${'word '.repeat(100)}`)
  assert.match(scrubbed, /^[\x20-\x7e]+$/)
  assert.match(scrubbed, SUMMARY)
  assert.ok(scrubbed.length < 250)
})

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const der = privateKey.export({ type: 'pkcs8', format: 'der' })
const jwk = privateKey.export({ format: 'jwk' })
const secret = Buffer.from(
  Secret.encode({
    name: 'default',
    type: {
      $case: 'tlsCertificate',
      value: { certificateChain: undefined, privateKey: { inlineBytes: Buffer.from(pem) } },
    },
  }).finish(),
)

/** As protobuf's text format writes bytes. */
function octal(bytes: Buffer): string {
  return [...bytes].map(byte => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : octalEscape(byte))).join('')
}

function octalEscape(byte: number): string {
  return `\\${byte.toString(8).padStart(3, '0')}`
}

const prefix = 'Protobuf message (type envoy.extensions.transport_sockets.tls.v3.Secret) has bad wire data: '
const dumps: readonly (readonly [string, string])[] = [
  ['as PEM', pem],
  ['as PEM in JSON', JSON.stringify(pem)],
  ['as PEM in base64', Buffer.from(pem).toString('base64')],
  ['as base64 of its DER', der.toString('base64')],
  ['as hex of its DER', der.toString('hex')],
  ['as hex with spaces', der.toString('hex').replace(/../g, '$& ')],
  ['as hex with colons', der.toString('hex').replace(/../g, '$&:')],
  ['as a dump of a Buffer', inspect(der)],
  ['as an array of bytes', JSON.stringify([...der])],
  ['as octal escapes', [...der].map(octalEscape).join('')],
  ['as hex escapes', der.toString('hex').replace(/../g, '\\x$&')],
  ['as a JWK', JSON.stringify(jwk)],
  ['as raw bytes', der.toString('latin1')],
  ['as raw bytes read as UTF-8', der.toString()],
  ['in a debug string of the Secret', `value: "${octal(secret)}"`],
  ['in a debug string of the response', `resources { type_url: "t" value: "${octal(secret)}" }`],
  [
    'in the text format of the Secret',
    `name: "default" tls_certificate { private_key { inline_bytes: "${octal(der)}" } }`,
  ],
]

for (const [how, dump] of dumps) {
  test(`nothing of a private key is left that is dumped ${how}`, () => {
    const scrubbed = scrubPeerText(prefix + dump)
    assert.ok(scrubbed.startsWith('Protobuf message'), scrubbed)
    assert.match(scrubbed, SUMMARY)
    const kept = scrubbed.slice(prefix.length).replace(SUMMARY, '')
    // The name of the field may stay, and a few bytes of the fixed head of every such key.
    assert.ok(kept.length < 60, kept)
    assert.ok(!kept.includes(jwk.d?.slice(0, 8) ?? ''))
  })
}

test('whatever the text is, the result is short and printable', async () => {
  await verify(
    property(string({ unit: 'binary', maxLength: 2_000 }), text => {
      const scrubbed = scrubPeerText(text)
      assert.match(scrubbed, /^[\x20-\x7e]*$/)
      assert.ok(scrubbed.length < 260)
    }),
  )
})
