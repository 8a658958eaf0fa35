/** The archive: unpacked into an empty root that has a shell and the libraries of Node, it serves an identity. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { globSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { noImage as skip } from './image-root.ts'
import { REPOSITORY } from './papers.ts'
import { fetchSecrets } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** Every machine has them. */
const SHELL = ['/bin/sh', '/usr/bin/dirname', '/usr/bin/readlink']
const PLUGIN = `import { CAError } from '@livery/core/plugin'
export const plugin = {
  apiVersion: 1,
  name: 'acme',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
  options: {},
  create: async () => ({
    issue: async () => { throw new CAError('denied', 'acme refuses') },
    async [Symbol.asyncDispose]() {},
  }),
}
`

const folder = temporaryFolder({ after })
const root = join(folder, 'root')
const opt = join(root, 'opt')

before(
  async () => {
    if (skip) return
    await using making = new Command(process.execPath, ['scripts/archive.mjs', '--out', folder], {
      cwd: REPOSITORY,
      env: shellEnvironment(),
    })
    assert.equal(await making.code(), 0, making.output)
    for (const path of [opt, join(root, 'usr/local/bin')]) mkdirSync(path, { recursive: true })
    execFileSync('tar', ['-xzf', archive(), '-C', opt])
    for (const file of [...SHELL, ...[process.execPath, ...SHELL].flatMap(libraries)])
      execFileSync('cp', ['--parents', '-L', file, root])
    mkdirSync(join(root, 'dev'))
    execFileSync('mknod', ['-m', '666', join(root, 'dev/null'), 'c', '1', '3'])
    symlinkSync(`../../../opt/${unpacked()}/bin/livery`, join(root, 'usr/local/bin/livery'))
  },
  { timeout: 300_000 },
)

function archive(): string {
  const [file = ''] = globSync(join(folder, 'livery-*.tar.gz'))
  return file
}

function unpacked(): string {
  const [name = ''] = readdirSync(opt)
  return name
}

/** The shared libraries of a program, as its loader finds them. */
function libraries(file: string): readonly string[] {
  const listed = execFileSync('ldd', [file], { encoding: 'utf8' })
  return [...listed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path = '']) => path)
}

/** Runs the command of the link in the empty root, as a user that cannot write there. */
function run(name: string, ca: object): Command {
  const place = join(root, name)
  mkdirSync(place)
  const config = { ca, identities: [{ id: WEB, socket: `/${name}/web.sock` }], admin: { address: '127.0.0.1:0' } }
  writeFileSync(join(place, 'livery.yaml'), JSON.stringify(config))
  writeFileSync(join(place, 'package.json'), '{}')
  writeFileSync(join(place, 'acme.mjs'), PLUGIN)
  execFileSync('chown', ['-R', '15100:15100', place])
  const words = ['--userspec=15100:15100', root, '/usr/local/bin/livery', 'run', '--config', `/${name}/livery.yaml`]
  return new Command('chroot', words, { cwd: '/', env: { PATH: '/usr/bin:/usr/sbin:/bin', NODE_DEBUG: 'livery' } })
}

test('it serves an identity with its own Node, the addon, and the compiled code', { skip }, async () => {
  await using agent = run('embedded', { plugin: 'embedded', directory: 'ca' })
  await agent.line(/livery .* serves/)
  assert.match(agent.output, /the compiled code in \/opt\/\S+ is taken/)
  assert.match(agent.output, /keys: ecdsa-p256, native/)
  const [secret] = await fetchSecrets(join(root, 'embedded/web.sock'), ['default'])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${WEB}`)
  agent.killGroup('SIGTERM')
  assert.equal(await agent.code(), 0, agent.output)
})

test('it runs a plugin from a file, which gets the core of the archive', { skip }, async () => {
  await using agent = run('acme', { plugin: './acme.mjs' })
  await agent.line(/did not issue \(denied\): acme refuses/)
})

test('it holds the unit, the man page, the licences and the bill of materials', { skip }, () => {
  const files = new Set(globSync('**', { cwd: join(opt, unpacked()) }))
  const wanted = [
    'LICENSE',
    'bin/livery',
    'lib/livery/LICENSE-node',
    'lib/livery/node_modules/@livery/agent/dist/bundle/licences.txt',
    'lib/livery/node_modules/@livery/agent/page-dist/app.js',
    'lib/livery/node_modules/@livery/native-keygen/THIRD-PARTY-NOTICES.md',
    'lib/systemd/system/livery.service',
    'share/livery/livery.cdx.json',
    'share/man/man1/livery.1',
  ]
  assert.deepEqual(
    wanted.filter(file => !files.has(file)),
    [],
  )
})
