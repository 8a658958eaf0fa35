import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto'
import { chmodSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { garbleNotBefore } from '../../test/garble-date.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { PairIssuer } from '../testing/pair-issuer.ts'
import { nodeCertificateVerifier } from '../x509/node-chain-reader.ts'
import { FileFault } from './file-fault.ts'
import { readKeyPair } from './key-pair.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const clock = new FakeClock()
const now = clock.now()
const ca = await PairIssuer.create(clock)
const brought = await ca.issue(WEB)
const chain = brought.chain.join('')
const { root, key } = brought

interface Written {
  readonly chain: string
  readonly key: string
}

/** A folder with these files; one that is `undefined` is not there. */
async function folderOf(t: TestContext, files: { readonly chain?: string; readonly key?: string }): Promise<Written> {
  const folder = temporaryFolder(t)
  if (files.chain !== undefined) writeFileSync(join(folder, 'chain'), files.chain)
  if (files.key !== undefined) writeFileSync(join(folder, 'key'), files.key)
  return { chain: join(folder, 'chain'), key: join(folder, 'key') }
}

/** The message, with the folder left out; nothing of the key may be in it. */
async function faultOf(files: Written, identity = WEB, at = now): Promise<FileFault & { readonly text: string }> {
  const error = await readKeyPair(files, { identity, now: at }).then(
    () => assert.fail('it was read'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof FileFault, String(error))
  assert.equal(error.cause, undefined)
  const text = error.message.replaceAll(files.chain, 'CHAIN').replaceAll(files.key, 'KEY')
  return Object.assign(error, { text })
}

test('a chain and its key are read, the key into separate memory', async t => {
  const pair = await readKeyPair(await folderOf(t, { chain, key }), { identity: WEB, now })
  assert.deepEqual(pair.chain, brought.chain)
  assert.equal(pair.privateKey.toString(), key)
  assert.equal(pair.privateKey.buffer.byteLength, pair.privateKey.length)
  const { validToDate, validFromDate } = new X509Certificate(chain)
  assert.deepEqual([pair.notBefore, pair.notAfter], [validFromDate.getTime(), validToDate.getTime()])
})

const sameKey = createPrivateKey(key)
const EC_PARAMETERS = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
const sec1 = sameKey.export({ type: 'sec1', format: 'pem' }).toString()
const crlf = (text: string) => text.replaceAll('\n', '\r\n')

const READABLE: Readonly<Record<string, Written>> = {
  'a key as SEC1, after its parameters': { chain, key: EC_PARAMETERS + sec1 },
  'lines that end as in DOS': { chain: crlf(chain), key: crlf(key) },
  'text before, between and after': {
    chain: `# leaf of web\n${brought.chain.join('\nsubject=/O=somebody\n-----\n')}\n# end -----\n`,
    key: `Bag Attributes\n    friendlyName: web\n${key}trailing`,
  },
  'a byte order mark': { chain: `\uFEFF${chain}`, key: `\uFEFF${key}` },
  'no newline at the end': { chain: chain.trimEnd(), key: key.trimEnd() },
  'the root at the end of the chain': { chain: chain + root, key },
  'key and chain in both files': { chain: key + chain, key: key + chain },
}
for (const [what, files] of Object.entries(READABLE)) {
  test(`it is read, and core can use it: ${what}`, async t => {
    const pair = await readKeyPair(await folderOf(t, files), { identity: WEB, now })
    assert.deepEqual(pair.chain, brought.chain)
    assert.match(
      pair.privateKey.toString(),
      /^-----BEGIN (EC )?PRIVATE KEY-----\n[^\r]+\n-----END (EC )?PRIVATE KEY-----\n$/,
    )
    nodeCertificateVerifier.verify(pair.chain, {
      identity: WEB,
      key: { privateKeyPem: pair.privateKey },
      anchors: [new X509Certificate(root)],
      now,
    })
  })
}

test('the version depends on chain and key only, whatever stands around them', async t => {
  const versionOf = async (files: Written) =>
    (await readKeyPair(await folderOf(t, files), { identity: WEB, now })).version
  const version = await versionOf({ chain, key })
  assert.equal(await versionOf({ chain: `# comment\n${crlf(chain)}${root}`, key: crlf(key) }), version)
  const other = await ca.issue(WEB)
  assert.notEqual(await versionOf({ chain: other.chain.join(''), key: other.key }), version)
})

const other = await ca.issue(WEB)
const pkcs8 = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'sesame' } as const
const encrypted = (as: KeyObject) => as.export(pkcs8).toString()
const legacy = sameKey.export({ ...pkcs8, type: 'sec1' }).toString()
const ed25519 = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const rsa1024 = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey
const secp256k1 = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey
const half = (text: string) => text.slice(0, text.length / 2)
const garbled = (text: string) => text.replace(/\n[A-Za-z0-9+/=]{20}/, '\nAAAAAAAAAAAAAAAAAAAA')

/** The content of the files, whether a retry can help, and the message. */
const UNUSABLE: Readonly<Record<string, readonly [Partial<Written>, boolean, RegExp]>> = {
  'neither is there': [{}, false, /^Cannot use CHAIN: it is not there\. Have it written there, or correct the path /],
  'the chain is not there yet': [{ key }, true, /CHAIN: it is not there/],
  'the key is not there yet': [{ chain }, true, /KEY: it is not there/],
  'an empty chain': [{ chain: '', key }, true, /CHAIN: it is empty\. Write the whole chain as PEM, the leaf first\./],
  'an empty key': [{ chain, key: '' }, true, /KEY: it is empty\. Write the key as PEM\./],
  'half a leaf': [{ chain: half(brought.chain[0] ?? ''), key }, true, /CHAIN: it ends within certificate 1/],
  'half an intermediate': [{ chain: chain.slice(0, -60), key }, true, /CHAIN: it ends within certificate 2/],
  'half a key': [{ chain, key: half(key) }, true, /KEY: it ends within the private key/],
  'no PEM': [{ chain: '<html>', key }, true, /CHAIN: it has no PEM certificate/],
  'a key in place of the chain': [{ chain: key, key }, true, /CHAIN: it has no PEM certificate/],
  'a chain in place of the key': [{ chain, key: chain }, true, /KEY: it has no PEM private key/],
  'a garbled certificate': [{ chain: garbled(chain), key }, true, /CHAIN: its certificate 1 cannot be parsed/],
  'a garbled key': [{ chain, key: garbled(key) }, true, /KEY: its key cannot be parsed/],
  'the key of another one': [
    { chain, key: other.key },
    true,
    /KEY: its key does not match the first certificate in CHAIN\. Write the key and the chain of one issuance, the leaf first\./,
  ],
  'an intermediate first': [
    { chain: brought.chain.toReversed().join(''), key },
    false,
    /CHAIN: its first certificate is for no SPIFFE ID, not for spiffe:/,
  ],
  'an encrypted key': [{ chain, key: encrypted(sameKey) }, false, /KEY: its key is encrypted\. .*openssl pkey/],
  'a key encrypted in the old form': [{ chain, key: legacy }, false, /KEY: its key is encrypted/],
  'an Ed25519 key': [{ chain, key: ed25519 }, false, /KEY: its key is ed25519, which Envoy does not take/],
  'a key on a curve that Envoy does not have': [
    { chain, key: secp256k1.export({ type: 'sec1', format: 'pem' }).toString() },
    false,
    /KEY: its key is ECDSA on secp256k1, which Envoy does not take\. Have an ECDSA key on P-256/,
  ],
  'a short RSA key': [
    { chain, key: rsa1024.export({ type: 'pkcs1', format: 'pem' }).toString() },
    false,
    /KEY: its key is RSA of 1024 bits/,
  ],
  'too many certificates': [{ chain: chain.repeat(11), key }, true, /CHAIN: it has 22 certificates, more than 20/],
}
for (const [what, [files, mayPass, message]] of Object.entries(UNUSABLE)) {
  test(`it is refused with file, reason and remedy: ${what}`, async t => {
    const fault = await faultOf(await folderOf(t, files))
    assert.match(fault.text, message)
    assert.equal(fault.mayPass, mayPass)
    assert.equal(fault.code, fault.text.includes('not there') ? 'unavailable' : 'bad-response')
    assert.doesNotMatch(fault.message, /BEGIN|MII|sesame/)
  })
}

test('the key of a pair that is refused is wiped', async t => {
  const { mock } = t.mock.method(Buffer, 'alloc')
  const keys = () => mock.calls.filter(({ result }) => result?.includes('PRIVATE KEY')).length
  const files = await folderOf(t, { chain, key })
  await readKeyPair(files, { identity: WEB, now })
  assert.equal(keys(), 1)
  mock.resetCalls()
  await faultOf(files, WEB, now + 3_600_000)
  await faultOf(await folderOf(t, { chain, key: other.key }))
  await faultOf(await folderOf(t, { chain, key: garbled(key) }))
  assert.equal(keys(), 0)
})

test('a certificate of another identity and one that has ended are named', async t => {
  const files = await folderOf(t, { chain, key })
  const another = await faultOf(files, 'spiffe://cluster.local/ns/default/sa/api')
  assert.match(another.text, /is for spiffe:\S+web, not for spiffe:\S+api\. .* use a placeholder in folder or chain\./)
  const ended = await faultOf(files, WEB, now + 3_600_000)
  assert.match(
    ended.text,
    /CHAIN: its first certificate ended at 2026-01-01T01:00:00\.000Z, and now is 2026-01-01T01:00/,
  )
  assert.deepEqual([another.mayPass, ended.mayPass, ended.code], [false, false, 'bad-response'])
})

test('anything but a regular file of at most 1 MB is not read', async t => {
  for (const [make, reason] of [
    [(path: string) => void execFileSync('mkfifo', [path]), 'it is not a regular file'],
    [(path: string) => mkdirSync(path), 'it is not a regular file'],
    [(path: string) => symlinkSync('/dev/zero', path), 'it is not a regular file'],
    [(path: string) => truncateSync(path, 10_000_000), 'it has 10000000 bytes, more than 1048576'],
    [(path: string) => symlinkSync('chain', path), 'its symbolic links lead in a circle'],
    [(path: string) => symlinkSync('nowhere', path), 'it is not there'],
  ] as const) {
    const files = await folderOf(t, { chain, key })
    if (!reason.includes('bytes')) rmSync(files.chain)
    make(files.chain)
    assert.match((await faultOf(files)).text, new RegExp(`^Cannot use CHAIN: ${reason}\\. `))
  }
})

const isRoot = process.geteuid?.() === 0
test('a file that the agent may not read is named with the remedy', {
  skip: isRoot ? false : 'only root can become somebody who may not read the file',
}, async t => {
  const files = await folderOf(t, { chain, key })
  chmodSync(join(files.key, '..'), 0o755)
  chmodSync(files.key, 0o600)
  process.seteuid?.(65_534)
  try {
    const fault = await faultOf(files)
    assert.match(fault.text, /^Cannot use KEY: the agent may not read it\. Let the agent's user read it/)
    assert.deepEqual([fault.code, fault.mayPass], ['unavailable', false])
  } finally {
    process.seteuid?.(0)
  }
})

test('a leaf with a date that cannot be read is refused whether or not it may have ended', async t => {
  const [leaf = '', ...issuers] = brought.chain
  const files = await folderOf(t, { chain: [garbleNotBefore(leaf), ...issuers].join(''), key })
  for (const options of [{}, { now }])
    await assert.rejects(readKeyPair(files, options), /its first certificate has a date that cannot be read/)
})
