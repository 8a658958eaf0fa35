/** The program in folders that others can write to, and with files that others could have written. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmod, chown, mkdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const NOBODY = 65_534
const needsRoot = process.geteuid?.() === 0 ? false : 'only root can start processes of other users'

interface Pod {
  readonly cwd: string
  readonly emptyDir: string
  start(config: object): Promise<LiveryProcess>
}

/** A folder as kubelet makes an emptyDir, and an agent that is not root. */
async function makePod(t: TestContext): Promise<Pod> {
  const cwd = temporaryFolder(t)
  await chmod(cwd, 0o755)
  const emptyDir = join(cwd, 'emptyDir')
  await mkdir(emptyDir)
  await chmod(emptyDir, 0o777)
  return {
    cwd,
    emptyDir,
    async start(config) {
      const whole = { ca: { plugin: 'embedded' }, identities: [WEB], admin: { address: '127.0.0.1:0' }, ...config }
      await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(whole), { mode: 0o644 })
      const agent = new LiveryProcess(['run'], { cwd, uid: NOBODY })
      t.after(() => agent[Symbol.asyncDispose]())
      return agent
    },
  }
}

const sockets = [{ path: 'emptyDir/sds/sds.sock', mode: '0666', allow: [WEB] }]

test('in an emptyDir an agent that is not root makes a folder for itself where the configuration shares it', {
  skip: needsRoot,
}, async t => {
  const pod = await makePod(t)
  const agent = await pod.start({ sharedFolders: ['emptyDir'], sockets, store: { directory: 'emptyDir/state' } })
  await agent.admin()
  for (const [name, mode] of [
    ['sds', 0o751],
    ['state', 0o700],
  ] as const) {
    const made = await stat(join(pod.emptyDir, name))
    assert.deepEqual([made.uid, made.mode & 0o7777], [NOBODY, mode])
  }
  const [secret] = await fetchSecrets(join(pod.emptyDir, 'sds', 'sds.sock'), [WEB])
  assert.match(secret?.privateKey ?? '', /PRIVATE KEY/)
})

test('in an emptyDir that is not shared it does not start, and says what to write', { skip: needsRoot }, async t => {
  const pod = await makePod(t)
  const agent = await pod.start({ sockets })
  assert.equal((await agent.ended).code, 1)
  assert.match(agent.stderr, /emptyDir \(mode 0777, owner 0:0\) can be written by others.*add .*emptyDir to sharedF/)
})

test('a socket in an emptyDir itself is refused with a path below it, which works and which no other user can replace', {
  skip: needsRoot,
}, async t => {
  const pod = await makePod(t)
  const refused = await pod.start({ sockets: [{ ...sockets[0], path: 'emptyDir/sds.sock' }] })
  assert.equal((await refused.ended).code, 1)
  const [, shared = '', path = ''] =
    /add (\S+) to sharedFolders\. Then too, a path in a folder below it is safer, such as (\S+):/.exec(
      refused.stderr,
    ) ?? []
  assert.equal(shared, pod.emptyDir)
  const agent = await pod.start({ sharedFolders: [shared], sockets: [{ ...sockets[0], path }] })
  await agent.admin()
  assert.equal((await fetchSecrets(path, [WEB])).length, 1)
  const replace = `require('node:fs').unlinkSync(${JSON.stringify(path)})`
  const { stderr } = spawnSync(process.execPath, ['-e', replace], { uid: 12_345, gid: 12_345, encoding: 'utf8' })
  assert.match(stderr, /EACCES/)
})

test('a folder that another user has made in a shared one is refused', { skip: needsRoot }, async t => {
  const pod = await makePod(t)
  await mkdir(join(pod.emptyDir, 'sds'))
  await chown(join(pod.emptyDir, 'sds'), 12_345, 12_345)
  const agent = await pod.start({ sharedFolders: ['emptyDir'], sockets })
  assert.equal((await agent.ended).code, 1)
  assert.match(
    agent.stderr,
    /sds \(mode 0755, owner 12345:12345\) belongs to uid 12345, and this process runs as 65534/,
  )
})

/** Changes by other users to the configuration file, or to the module that it names. */
const openings: readonly (readonly [string, (folder: string, file: string) => Promise<void>, boolean?])[] = [
  ['of mode 0666', (_, file) => chmod(file, 0o666)],
  ['of mode 0602', (_, file) => chmod(file, 0o602)],
  ['in a folder of mode 0777', folder => chmod(folder, 0o777)],
  ['of another user', (_, file) => chown(file, NOBODY, NOBODY), true],
  ['in a folder of another user', folder => chown(folder, NOBODY, NOBODY), true],
]
const refusal = /others could have written it: .* (can be written by others|belongs to uid 65534)/
for (const [how, open, isForRoot = false] of openings)
  for (const name of ['livery.yaml', 'plugin.mjs'])
    test(`a ${name} ${how} is not used: it names or is code that the agent runs`, {
      skip: isForRoot && needsRoot,
    }, async t => {
      const cwd = temporaryFolder(t)
      const folder = join(cwd, 'folder')
      await mkdir(folder)
      const file = join(folder, name)
      const isPlugin = name === 'plugin.mjs'
      await writeFile(
        join(folder, 'plugin.mjs'),
        `import { writeFileSync } from 'node:fs'; writeFileSync('${cwd}/ran', '')`,
      )
      const config = join(isPlugin ? cwd : folder, 'livery.yaml')
      const ca = { plugin: isPlugin ? './folder/plugin.mjs' : 'embedded' }
      await writeFile(config, JSON.stringify({ ca, identities: [{ id: WEB, socket: 'web.sock' }] }))
      await open(folder, file)
      const { code, stderr } = await livery(['check-config', '--config', config], { cwd })
      assert.equal(code, 78, stderr)
      assert.match(stderr, refusal)
      await assert.rejects(stat(join(cwd, 'ran')), { code: 'ENOENT' })
    })

for (const [how, open] of [
  ['itself', file => chmod(file, 0o666)],
  ['with its folder, which it shares,', file => chmod(dirname(file), 0o777)],
] as const satisfies readonly (readonly [string, (file: string) => Promise<void>])[])
  test(`a configuration that is opened ${how} to others while the agent runs is not reloaded`, async t => {
    const cwd = temporaryFolder(t)
    const config = { ca: { plugin: 'embedded' }, admin: { address: '127.0.0.1:0' }, sharedFolders: ['.'] }
    const file = join(cwd, 'livery.yaml')
    const write = (...names: readonly string[]) =>
      writeFile(
        file,
        JSON.stringify({
          ...config,
          identities: names.map(name => ({ id: `${WEB}-${name}`, socket: `${name}.sock` })),
        }),
      )
    await write('a')
    await using agent = new LiveryProcess(['run'], { cwd })
    await agent.admin()
    await open(file)
    await write('a', 'b')
    agent.kill('SIGHUP')
    const outcome = await agent.line(/reloaded/)
    assert.match(outcome, /not reloaded, the previous configuration stays in force: .*can be written by others/)
    await assert.rejects(stat(join(cwd, 'b.sock')), { code: 'ENOENT' })
  })
