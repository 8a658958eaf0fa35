import assert from 'node:assert/strict'
import { chmod, chown, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { workloadRequest } from '../../testing/workload-request.ts'
import type { CertificateAuthorityOptions } from './authority-state.ts'
import { CertificateAuthority } from './certificate-authority.ts'

function open(directory: string, options: Partial<CertificateAuthorityOptions> = {}) {
  const clock = { now: () => Date.now(), at: () => assert.fail('this CA sets no timer') }
  return CertificateAuthority.open({ clock, trustDomain: 'cluster.local', directory, ...options })
}

async function contents(directory: string): Promise<Record<string, string>> {
  const names = (await readdir(directory)).sort()
  return Object.fromEntries(await Promise.all(names.map(async n => [n, await readFile(join(directory, n), 'utf8')])))
}

for (const options of [
  {},
  { intermediate: true },
  { keyType: 'ecdsa-p384' },
  { keyType: 'rsa-2048' },
] satisfies Partial<CertificateAuthorityOptions>[])
  test(`a restart keeps the root and continues to sign: ${JSON.stringify(options)}`, async t => {
    const directory = join(temporaryFolder(t), 'ca')
    const first = await open(directory, options)
    const second = await open(directory, options)
    assert.deepEqual(second.trustBundle(), first.trustBundle())
    const { identity, csrDer } = await workloadRequest('spiffe://cluster.local/ns/default/sa/web')
    const { chain, root } = await second.sign({ identity, csr: csrDer, ttlSeconds: 60 })
    assert.equal(root, first.trustBundle()[0])
    assert.equal(chain.length, 'intermediate' in options ? 2 : 1)
  })

test('the directory has mode 0700, its files 0600, and root.pem is the trust bundle', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const authority = await open(directory)
  await authority.addRoot()
  assert.equal((await stat(directory)).mode & 0o777, 0o700)
  assert.deepEqual((await readdir(directory)).sort(), ['authority.json', 'root.pem'])
  for (const name of await readdir(directory)) assert.equal((await stat(join(directory, name))).mode & 0o777, 0o600)
  assert.equal(await readFile(join(directory, 'root.pem'), 'utf8'), authority.trustBundle().join(''))
})

test('a rotation survives a restart at each step', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const authority = await open(directory)
  const [old] = authority.roots()
  const added = await authority.addRoot()
  assert.deepEqual((await open(directory)).roots(), authority.roots())
  await authority.switchTo(added)
  assert.deepEqual((await open(directory)).roots(), authority.roots())
  await authority.removeRoot(old?.id ?? '')
  assert.deepEqual((await open(directory)).trustBundle(), authority.trustBundle())
})

test('two processes that start in one empty directory end up with one root', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const authorities = await Promise.all([open(directory), open(directory), open(directory)])
  assert.equal(new Set(authorities.flatMap(authority => authority.trustBundle())).size, 1)
})

test('a root that another process added is not overwritten', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const [one, other] = [await open(directory), await open(directory)]
  await one.addRoot()
  const before = await contents(directory)
  await assert.rejects(other.addRoot(), /another process has changed authority\.json/)
  assert.equal(other.trustBundle().length, 1)
  assert.deepEqual(await contents(directory), before)
})

test('an older root.pem, as a run stopped half-way leaves it, is brought up to date', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  const authority = await open(directory)
  await writeFile(join(directory, 'root.pem'), authority.trustBundle().join(''))
  await authority.addRoot()
  await rm(join(directory, 'root.pem'))
  await open(directory)
  assert.equal(await readFile(join(directory, 'root.pem'), 'utf8'), authority.trustBundle().join(''))
})

test('a directory that is not whole is refused with the reason, and nothing in it is changed', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await open(directory, { intermediate: true })
  const whole = await contents(directory)
  const foreignDirectory = join(temporaryFolder(t), 'ca')
  await open(foreignDirectory)
  const foreign = await contents(foreignDirectory)
  const state = JSON.parse(whole['authority.json'] ?? '')
  const foreignState = JSON.parse(foreign['authority.json'] ?? '')
  const [anchor] = state.anchors
  const [foreignAnchor] = foreignState.anchors
  const withAnchor = (changed: object) => JSON.stringify({ ...state, anchors: [{ ...anchor, ...changed }] })
  const cases: readonly (readonly [string, string | undefined, RegExp])[] = [
    ['authority.json', undefined, /has root\.pem but no authority\.json/],
    ['authority.json', '', /not valid JSON/],
    ['authority.json', (whole['authority.json'] ?? '').slice(0, 900), /not valid JSON/],
    ['authority.json', '{"version":2}', /not in the form of version 1/],
    ['authority.json', JSON.stringify({ ...state, signingRoot: 'x' }), /signing root x is none/],
    ['authority.json', withAnchor({ root: { ...anchor.root, certificate: 'no' } }), /certificate of its root cannot/],
    ['authority.json', withAnchor({ root: { ...anchor.root, privateKey: 'no' } }), /private key of its root cannot/],
    [
      'authority.json',
      withAnchor({ root: { ...anchor.root, privateKey: foreignAnchor.root.privateKey } }),
      /key of its root does not belong/,
    ],
    ['authority.json', withAnchor({ root: anchor.intermediate }), /is not self-signed/],
    ['authority.json', withAnchor({ intermediate: foreignAnchor.root }), /intermediate is not signed by the root/],
    ['root.pem', foreign['root.pem'], /root\.pem holds no root of authority\.json/],
  ]
  for (const [name, text, reason] of cases) {
    for (const [each, original] of Object.entries(whole))
      await writeFile(join(directory, each), original, { mode: 0o600 })
    if (text === undefined) await rm(join(directory, name))
    else await writeFile(join(directory, name), text, { mode: 0o600 })
    const before = await contents(directory)
    await assert.rejects(open(directory), (error: Error) => {
      assert.match(error.message, reason)
      assert.match(error.message, /Restore the directory from a backup/)
      assert.doesNotMatch(error.message, /PRIVATE KEY/)
      return true
    })
    assert.deepEqual(await contents(directory), before)
  }
})

test('the CA of another trust domain is refused', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await open(directory)
  const before = await contents(directory)
  await assert.rejects(open(directory, { trustDomain: 'other.example' }), /to trust domain cluster\.local, not other/)
  assert.deepEqual(await contents(directory), before)
})

test('a directory that cannot be written is an error with its path', {
  skip: process.getuid?.() === 0 && 'root may write everywhere',
}, async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await chmod(join(directory, '..'), 0o500)
  t.after(() => chmod(join(directory, '..'), 0o700))
  await assert.rejects(open(directory), /Cannot keep a CA in .*EACCES.*Name a directory/)
})

test('a path that is a file is an error with its path', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await writeFile(directory, '')
  await assert.rejects(
    open(directory),
    /Cannot keep a CA in .*ca \(mode \d+, owner \d+:\d+\) is not a directory\. Name another path\.$/,
  )
})

for (const mode of [0o777, 0o1777, 0o757])
  test(`a directory of mode ${mode.toString(8)} is refused: somebody else could have put the CA there`, async t => {
    const directory = join(temporaryFolder(t), 'ca')
    await open(directory)
    await chmod(directory, mode)
    await assert.rejects(
      open(directory),
      /Cannot keep a CA in .*ca \(mode [0-7]{4}, owner \d+:\d+\) can be written by others/,
    )
    await chmod(directory, 0o700)
    await chmod(join(directory, '..'), 0o777)
    await assert.rejects(open(directory), /can be written by others, who can replace .*ca\. Run: chmod go-w/)
  })

test('a directory that others can look into is closed to them, with a warning', async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await open(directory)
  await chmod(directory, 0o755)
  const warnings: string[] = []
  await open(directory, { warn: message => void warnings.push(message) })
  assert.equal((await stat(directory)).mode & 0o7777, 0o700)
  assert.deepEqual(warnings.length, 1)
  assert.match(warnings[0] ?? '', /ca had mode 0755, which let others look into it/)
})

const untrusted: readonly (readonly [string, string, RegExp, (file: string) => Promise<void>])[] = [
  ['a key of mode 0666', 'authority.json', /can be written by others \(mode 0666\)/, file => chmod(file, 0o666)],
  ['a key of mode 0620', 'authority.json', /can be written by others \(mode 0620\)/, file => chmod(file, 0o620)],
  ['a key of mode 0640', 'authority.json', /can be read by others \(mode 0640\)/, file => chmod(file, 0o640)],
  ['a key of mode 0604', 'authority.json', /can be read by others \(mode 0604\)/, file => chmod(file, 0o604)],
  ['a link to the key', 'authority.json', /is a symbolic link/, linkAway],
  ['a bundle of mode 0666', 'root.pem', /can be written by others \(mode 0666\)/, file => chmod(file, 0o666)],
]
for (const [what, name, reason, damage] of untrusted)
  test(`${what} is refused, and nothing is changed`, async t => {
    const directory = join(temporaryFolder(t), 'ca')
    const authority = await open(directory)
    await damage(join(directory, name))
    const before = await contents(directory)
    await assert.rejects(open(directory), reason)
    if (name === 'authority.json') await assert.rejects(authority.addRoot(), reason)
    assert.deepEqual(await contents(directory), before)
  })

test('a key of another user is refused', {
  skip: process.getuid?.() !== 0 && 'only root can give files away',
}, async t => {
  const directory = join(temporaryFolder(t), 'ca')
  await open(directory)
  await chown(join(directory, 'authority.json'), 65_534, 65_534)
  await assert.rejects(open(directory), /belongs to uid 65534, not to 0/)
  await chown(directory, 65_534, 65_534)
  await assert.rejects(open(directory), /belongs to uid 65534, and this process runs as 0/)
})

async function linkAway(file: string): Promise<void> {
  await rename(file, `${file}.away`)
  await symlink(`${file}.away`, file)
}
