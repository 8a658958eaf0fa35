/** Names of files on a stream: who gets them, and why not, each name for itself. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { FileStream, startFileServer, textOf } from '../../test/file-server.ts'
import { WEB } from '../../test/running-server.ts'
import { namesOf, SdsClient, secretsOf } from '../../test/sds-client.ts'

test('a pair and its roots are served by the names of their files', async t => {
  const { server, folder, issue } = await startFileServer(t)
  const pair = await issue()
  mkdirSync(folder)
  writeFileSync(join(folder, 'cert.pem'), pair.chain.join('') + pair.root)
  writeFileSync(join(folder, 'key.pem'), pair.key)
  writeFileSync(join(folder, 'ca.pem'), pair.root)
  await new FileStream(server, `file-cert:${folder}/cert.pem~${folder}/key.pem`).expect(pair)
  const { type } = await new FileStream(server, `file-root:${folder}/ca.pem`).next()
  assert.ok(type?.$case === 'validationContext')
  assert.equal(textOf(type.value.trustedCa).trim(), pair.root.trim())
})

test('the roots of the system are for every caller, and no other file is without allow', async t => {
  const systemRoots = '/nowhere/ca.pem'
  const { server, folder, issuer } = await startFileServer(t, { systemRoots: [systemRoots] }, { allow: [] })
  mkdirSync(folder)
  writeFileSync(join(folder, 'ca.pem'), issuer.root)
  const stream = server.connect().sotw()
  const [missing, other] = ['file-root:system', `file-root:${folder}/ca.pem`]
  stream.ask(missing, other)
  assert.deepEqual(namesOf(await stream.next()), [])
  const reasons = [missing, other].map(name => server.reports.get(name)?.find(({ kind }) => kind === 'refused'))
  assert.match(JSON.stringify(reasons[0]), /this system has no roots in any of the usual files/)
  assert.match(JSON.stringify(reasons[1]), /this caller is not allowed these files: see allow/)
})

test('the socket of one identity serves the files that its allow names', async t => {
  const base = await startFileServer(t)
  const { folder, issue } = base
  const pair = await issue()
  mkdirSync(folder)
  writeFileSync(join(folder, 'both.pem'), pair.key + pair.chain.join(''))
  const path = `${base.server.path}.web`
  await base.server.server.listen({ path, identity: WEB, allow: [`file-cert:${folder}/*`] })
  const name = `file-cert:${folder}/both.pem~${folder}/both.pem`
  using client = new SdsClient(path)
  const stream = client.sotw()
  stream.ask(name)
  assert.deepEqual(namesOf(await stream.next()), [name])
})

/** The content in the place of the chain, and the reason for which it is not served. */
const UNUSABLE: readonly (readonly [string, (path: string) => void, RegExp])[] = [
  ['nothing', () => {}, /it is not there\. Have it written there/],
  ['a folder', path => mkdirSync(path), /it is not a regular file/],
  ['a FIFO', path => void execFileSync('mkfifo', [path]), /it is not a regular file/],
  ['a file of 100 MB', writeMuch, /it has 100000000 bytes, more than 10/],
  ['a circle of links', path => symlinkSync(path, path), /its symbolic links lead in a circle/],
  ['a link to a device', path => symlinkSync('/dev/zero', path), /it leads to \/dev\/zero, which is in no folder of/],
  ['a link to a file elsewhere', linkElsewhere, /it leads to \S+\/elsewhere\/cert\.pem, which is in no folder of/],
  [
    'a file in a linked folder elsewhere',
    linkFolder,
    /it leads to \S+\/elsewhere\/cert\.pem, which is in no folder of/,
  ],
]

function writeMuch(path: string): void {
  writeFileSync(path, '')
  truncateSync(path, 100_000_000)
}

function linkElsewhere(path: string): void {
  const elsewhere = join(dirname(path), '../elsewhere')
  mkdirSync(elsewhere)
  writeFileSync(join(elsewhere, 'cert.pem'), '')
  symlinkSync('../elsewhere/cert.pem', path)
}

function linkFolder(path: string): void {
  linkElsewhere(`${path}.other`)
  symlinkSync('../elsewhere', join(dirname(path), 'below'))
  symlinkSync('below/cert.pem', path)
}

for (const [what, make, reason] of UNUSABLE)
  test(`${what} is refused for that name alone, and served once it is a certificate`, async t => {
    const { server, folder, issue } = await startFileServer(t)
    const pair = await issue()
    const [chain, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
    mkdirSync(folder)
    writeFileSync(key, '')
    make(chain)
    const name = `file-cert:${chain}~${key}`
    const stream = server.connect().sotw()
    stream.ask(name, WEB)
    const response = await stream.next()
    stream.ack(response, name, WEB)
    assert.deepEqual(namesOf(response), [WEB])
    const refused = server.reports.get(name)?.find(report => report.kind === 'refused')
    assert.match(refused?.kind === 'refused' ? refused.reason : '', reason)
    rmSync(folder, { recursive: true })
    mkdirSync(folder)
    writeFileSync(key, pair.key)
    writeFileSync(chain, pair.chain.join(''))
    const later = await stream.next()
    assert.equal(textOf(certificateOf(later, name)), pair.chain.join(''))
  })

test('a file that others can write to is refused, and served once they cannot', async t => {
  const { server, folder, issue } = await startFileServer(t)
  const pair = await issue()
  const both = join(folder, 'both.pem')
  mkdirSync(folder)
  writeFileSync(both, pair.key + pair.chain.join(''))
  chmodSync(both, 0o666)
  const name = `file-cert:${both}~${both}`
  const stream = server.connect().sotw()
  stream.ask(name)
  assert.deepEqual(namesOf(await stream.next()), [])
  assert.match(
    JSON.stringify(server.reports.get(name)),
    /both\.pem \(mode 0666, owner \d+:\d+\) can be written by others/,
  )
  chmodSync(both, 0o644)
  assert.equal(textOf(certificateOf(await stream.next(), name)), pair.chain.join(''))
})

test('a link to a file elsewhere in the place of a file that is served is not followed: the pair before stays', async t => {
  const { server, folder, events, issue } = await startFileServer(t)
  const [pair, other, next] = [await issue(), await issue(), await issue()]
  const [both, elsewhere, made] = [join(folder, 'both.pem'), `${folder}.elsewhere`, join(folder, 'new')]
  const write = ({ key, chain }: typeof pair, path: string) => writeFileSync(path, key + chain.join(''))
  mkdirSync(folder)
  write(pair, both)
  const stream = new FileStream(server, `file-cert:${both}~${both}`)
  await stream.expect(pair)
  write(other, elsewhere)
  symlinkSync(elsewhere, made)
  renameSync(made, both)
  while (events.length === 1) await nextTurn()
  assert.match(JSON.stringify(events[1]), /"files-unusable".*it leads to \S+\.elsewhere, which is in no folder of/)
  write(next, made)
  renameSync(made, both)
  await stream.expect(next)
})

const NOBODY = { uid: 65_534, gid: 65_534 }

test("a hard link to root's key in a user's folder is refused, and a copy of the key is served", {
  skip: process.geteuid?.() !== 0 && 'only root can give a folder away',
}, async t => {
  const { server, folder, issue } = await startFileServer(t)
  const pair = await issue()
  const [secret, both] = [`${folder}.root-key`, join(folder, 'both.pem')]
  writeFileSync(secret, pair.key + pair.chain.join(''), { mode: 0o600 })
  mkdirSync(folder)
  // As the user makes it where fs.protected_hardlinks is 0.
  linkSync(secret, both)
  chownSync(folder, NOBODY.uid, NOBODY.gid)
  const name = `file-cert:${both}~${both}`
  const stream = server.connect().sotw()
  stream.ask(name)
  assert.deepEqual(namesOf(await stream.next()), [])
  assert.match(JSON.stringify(server.reports.get(name)), /both\.pem .* has 2 hard links, and uid 65534 could have made/)
  rmSync(both)
  copyFileSync(secret, both)
  assert.equal(textOf(certificateOf(await stream.next(), name)), pair.chain.join(''))
})

const UNREADABLE = 'a file that the agent may not read is refused for that name alone, and served once it may'
const THIS_FILE = fileURLToPath(import.meta.url)

// Root reads every file: there the test runs in a process of nobody.
if (process.geteuid?.() === 0) {
  const asNobody = (...args: readonly string[]) =>
    spawnSync(process.execPath, ['--conditions=@livery/source', ...args], { ...NOBODY, env: {}, encoding: 'utf8' })
  const canRun = asNobody('--eval', `require('node:fs').accessSync(${JSON.stringify(THIS_FILE)})`).status === 0
  test(UNREADABLE, { skip: !canRun && `uid ${NOBODY.uid} may not run Node or read ${THIS_FILE}` }, () => {
    const { status, stdout, stderr } = asNobody(`--test-name-pattern=${UNREADABLE}`, THIS_FILE)
    assert.equal(status, 0, stdout + stderr)
    assert.match(stdout, /^. pass 1$/m)
  })
} else
  test(UNREADABLE, async t => {
    const { server, folder, issue } = await startFileServer(t)
    const pair = await issue()
    const both = join(folder, 'both.pem')
    mkdirSync(folder)
    writeFileSync(both, pair.key + pair.chain.join(''), { mode: 0o000 })
    const name = `file-cert:${both}~${both}`
    const stream = server.connect().sotw()
    stream.ask(name, WEB)
    const response = await stream.next()
    stream.ack(response, name, WEB)
    assert.deepEqual(namesOf(response), [WEB])
    assert.match(
      JSON.stringify(server.reports.get(name)),
      /both\.pem: the agent may not read it\. Let the agent's user read it and pass through its folders/,
    )
    chmodSync(both, 0o600)
    assert.equal(textOf(certificateOf(await stream.next(), name)), pair.chain.join(''))
  })

test('a name with .. in it, and a file in a folder that is not listed, are refused by name', async t => {
  const { server, folder } = await startFileServer(t, {}, { allow: ['file-root:/etc/**'] })
  mkdirSync(folder)
  const stream = server.connect().sotw()
  const up = `file-root:${folder}/../ca.pem`
  stream.ask(up, 'file-root:/etc/passwd')
  assert.deepEqual(namesOf(await stream.next()), [])
  const reasonOf = (name: string) => JSON.stringify(server.reports.get(name)?.find(({ kind }) => kind === 'refused'))
  assert.match(reasonOf(up), /it has a path with \. or \.\. in it/)
  assert.match(reasonOf('file-root:/etc/passwd'), /it is in no folder of files\.allow/)
})

test('names of files beyond the limit of a caller are refused, until others are released', async t => {
  const { server, folder } = await startFileServer(t, {}, { limits: { perCaller: { files: 2 } } })
  const stream = server.connect().sotw()
  const names = [1, 2, 3].map(index => `file-root:${folder}/${index}.pem`)
  stream.ask(...names)
  await stream.next()
  const refusals = () => JSON.stringify(server.reports.get(names[2] ?? ''))
  assert.match(refusals(), /see limits\.perCaller\.files/)
  const [first = '', , third = ''] = names
  stream.ask(first)
  await stream.next()
  stream.ask(first, third)
  await stream.next()
  assert.match(refusals(), /it is not there/)
})

test('a caller that names as many files as it can leaves room for the names of another', async t => {
  const caller = { pid: 1, uid: 1, gid: 1 }
  const limits = { names: 5_000, messageBytes: 1_048_576, perCaller: { files: 5_000 } }
  const readPeerCredentials = () => ({ ...caller })
  const { server, folder, files } = await startFileServer(t, {}, { limits }, { readPeerCredentials })
  const namesOfCaller = (uid: number, count: number) =>
    Array.from({ length: count }, (_, index) => `file-root:${folder}/${uid}-${index}.pem`)
  const ask = async (uid: number, count: number) => {
    caller.uid = uid
    const before = files.entries().length
    const stream = server.connect().sotw()
    stream.ask(...namesOfCaller(uid, count))
    await stream.next()
    return files.entries().length - before
  }
  assert.equal(await ask(1, 4_500), 2_000)
  assert.equal(await ask(2, 500), 500)
  assert.equal(await ask(3, 1_000), 750)
  const [refused = ''] = namesOfCaller(3, 1_000).slice(750)
  assert.match(
    JSON.stringify(server.reports.get(refused)),
    /this caller has its share of the names of files and tokens/,
  )
})

function certificateOf(response: Parameters<typeof secretsOf>[0], name: string) {
  const { type } = secretsOf(response).get(name) ?? {}
  assert.ok(type?.$case === 'tlsCertificate')
  return type.value.certificateChain
}
