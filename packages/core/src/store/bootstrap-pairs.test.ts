import assert from 'node:assert/strict'
import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Restarts } from '../../test/restarts.ts'
import { CAError } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import { splitCertificates } from '../x509/pem.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const HOUR = 3_600_000

const down = () => Promise.reject(new CAError('unavailable', 'the CA is down'))

/** A node that never ran, where an operator has placed `web.pem`, of the CA's own making. */
async function placePair(restarts: Restarts, identity: SpiffeId = WEB): Promise<{ path: string; serial: string }> {
  const [serial = ''] = await restarts.runOnce(identity)
  const [file = ''] = await restarts.files()
  const pem = (await readFile(file, 'utf8')).replace(/^[^-]*/, '')
  await rm(restarts.directory, { recursive: true })
  const path = join(restarts.path, 'bootstrap')
  await mkdir(path, { recursive: true })
  await writeFile(join(path, 'web.pem'), pem, { mode: 0o600 })
  restarts.ca.requests.length = 0
  return { path, serial }
}

test('a pair that an operator has placed is served at once, and replaced at the first opportunity', async () => {
  await using restarts = await Restarts.create()
  const { path, serial } = await placePair(restarts)
  {
    await using run = await restarts.start({}, path)
    assert.equal((await run.bench.add(WEB)).serialNumber, serial)
    assert.equal(run.bench.last('restored').from, 'bootstrap')
    await run.bench.until('issued', 1)
    assert.notEqual(run.bench.served(WEB)?.serialNumber, serial)
  }
  await using run = await restarts.start({}, path)
  await run.bench.add(WEB)
  assert.equal(run.bench.last('restored').from, 'store')
  assert.equal(restarts.ca.requests.length, 1)
})

test('a pair of a user other than root and the agent’s own is not used, nor its roots', {
  skip: process.geteuid?.() !== 0 && 'only root can give files away',
}, async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  await chown(join(path, 'web.pem'), 65_534, 65_534)
  restarts.ca.answer = down
  await using run = await restarts.start({}, path)
  assert.match(
    run.store.warnings.join(),
    /web\.pem belongs to uid 65534, neither root nor 0: if it is good, run chown 0/,
  )
  assert.ok(!run.store.take(WEB))
})

test('a pair in a folder where others can replace it is not used, nor its roots', async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  await chmod(path, 0o777)
  restarts.ca.answer = down
  await using run = await restarts.start({}, path)
  assert.match(run.store.warnings.join(), /bootstrap pair .*web\.pem is not used: .*bootstrap \(mode 0777.*chmod go-w/)
  assert.ok(!run.store.take(WEB))
})

test('while the CA is down the pair is served on, and the CA asked again and again', async () => {
  await using restarts = await Restarts.create()
  const { path, serial } = await placePair(restarts)
  restarts.ca.answer = down
  await using run = await restarts.start({}, path)
  await run.bench.add(WEB)
  for (let failures = 1; failures <= 3; failures++) {
    await run.bench.until('ca-error', failures)
    await run.bench.toNextDue(WEB)
  }
  assert.equal(run.bench.served(WEB)?.serialNumber, serial)
  assert.deepEqual(await restarts.files(), [], 'it is not taken over into the store')
})

test('roots that lie with the pair are trusted where the CA lists none', async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  restarts.ca.answer = down
  restarts.ca.trustBundle = down
  const file = join(path, 'web.pem')
  await writeFile(file, (await readFile(file, 'utf8')) + restarts.ca.roots.join(''))
  await using run = await restarts.start({}, path)
  await run.bench.add(WEB)
  assert.equal(splitCertificates(Buffer.from(run.bench.served(WEB)?.certificateChain ?? []).toString()).length, 1)
  assert.equal(run.bench.manager.bundles()[0]?.roots.length, 1)
})

test('a pair without a root that anybody knows is not served, and the remedy is given', async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  restarts.ca.answer = down
  restarts.ca.trustBundle = down
  await using run = await restarts.start({}, path)
  run.bench.manager.add(WEB)
  await run.bench.until('not-restored', 1)
  assert.match(
    run.bench.last('not-restored').reason,
    /no root is known .*: put the root into its file, behind the chain/,
  )
})

test('the pair is used when what the store has expired while the node was off', async () => {
  await using restarts = await Restarts.create()
  restarts.ca.answer = (request, sign) => sign(request, { notAfter: restarts.clock.now() + 100 * HOUR })
  const { path, serial } = await placePair(restarts)
  restarts.ca.answer = (request, sign) => sign(request)
  await restarts.runOnce(WEB)
  await restarts.clock.advance(30 * HOUR)
  restarts.ca.answer = down
  await using run = await restarts.start({}, path)
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
  assert.match(run.bench.last('not-restored').reason, /stored certificate: it has expired/)
})

test('a pair that has expired is not served, and the reason reported', async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  await restarts.clock.advance(25 * HOUR)
  await using run = await restarts.start({}, path)
  await run.bench.add(WEB)
  assert.match(run.bench.last('not-restored').reason, /bootstrap certificate: it has expired/)
  assert.equal(run.bench.count('restored'), 0)
})

test('a pair whose intermediate has ended is not served, though its leaf is still valid', async () => {
  await using restarts = await Restarts.create()
  await restarts.signByEndingIntermediate()
  const { path } = await placePair(restarts)
  await restarts.clock.advance(25 * HOUR)
  restarts.ca.answer = down
  await using run = await restarts.start({}, path)
  run.bench.manager.add(WEB)
  await run.bench.until('not-restored', 1)
  assert.match(
    run.bench.last('not-restored').reason,
    /bootstrap certificate: its chain does not lead .* element 1 of the chain has expired/,
  )
  assert.equal(run.bench.count('restored'), 0)
})

test('a pair belongs to the identity in its certificate: no other identity gets it', async () => {
  await using restarts = await Restarts.create()
  const { path } = await placePair(restarts)
  await using run = await restarts.start({}, path)
  await run.bench.add(API)
  assert.equal(run.bench.count('restored'), 0)
})

const faults: readonly (readonly [string, RegExp, (file: string) => Promise<void>])[] = [
  ['has no key', /lacks a certificate or its unencrypted private key/, file => cut(file, 'CERTIFICATE')],
  ['has no certificate', /lacks a certificate or its/, file => cut(file, 'PRIVATE KEY')],
  ['others can write to', /can be written by others \(mode 0622\)/, file => chmod(file, 0o622)],
]
for (const [what, reason, spoil] of faults)
  test(`a pair that ${what} is left out, with a warning`, async () => {
    await using restarts = await Restarts.create()
    const { path } = await placePair(restarts)
    await spoil(join(path, 'web.pem'))
    await using run = await restarts.start({}, path)
    assert.match(run.store.warnings.join(), reason)
    assert.doesNotMatch(run.store.warnings.join(), /BEGIN/)
    await run.bench.add(WEB)
    assert.equal(run.bench.count('restored'), 0)
  })

test('a directory of pairs that is not there costs a warning', async () => {
  await using restarts = await Restarts.create()
  await using run = await restarts.start({}, join(restarts.path, 'none'))
  assert.match(run.store.warnings.join(), /no bootstrap pairs are used: .*ENOENT.*Check the path/)
})

/** Leaves just the blocks with this label. */
async function cut(file: string, label: string): Promise<void> {
  const blocks = (await readFile(file, 'utf8')).match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----\n/g) ?? []
  await writeFile(file, blocks.filter(block => block.startsWith(`-----BEGIN ${label}`)).join(''))
}
