/** The container image without a container engine: its root file system is laid out, mounted read-only, and run as its user. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Command, shellEnvironment } from './command.ts'
import { fetchSecrets } from './sds-client.ts'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const DOCKERFILE = readFileSync(join(repository, 'Dockerfile'), 'utf8')
const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const PROXY = 1_337
const [, USER = ''] = /^USER (\d+):\1$/m.exec(DOCKERFILE) ?? []
const GRANTED = '-all,+chown,+dac_override'
const NONE = '-all'

const skip = missing()

function missing(): string | false {
  if (process.platform !== 'linux' || process.geteuid?.() !== 0)
    return 'needs Linux and root, to mount and to be another user'
  if (!existsSync('/etc/debian_version')) return 'needs Debian: the image has its C library'
  if (globSync('packages/native-keygen/*.node', { cwd: repository }).length === 0) return 'no addon is built here'
  const tools = ['unshare', 'setpriv', 'chroot', 'mount', 'setcap', 'getcap', 'ldd', 'dpkg-query']
  const absent = tools.filter(tool => spawnSync(tool, ['--version']).error !== undefined)
  if (absent.length > 0) return `no ${absent.join(' and ')} on PATH`
  return spawnSync('unshare', ['--mount', '--pid', '--fork', 'true']).status === 0
    ? false
    : 'no mount namespace can be made here'
}

const folder = mkdtempSync(join(tmpdir(), 'livery-image-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const image = join(folder, 'rootfs')
const run = join(folder, 'run')
const etc = join(folder, 'etc')

/** What a container runtime does before it starts a program: `/` read-only, the volumes, and `/proc`. */
const MOUNTS = `
  mount --bind "$0/rootfs" "$0/rootfs" && mount -o remount,bind,ro "$0/rootfs" &&
  mount --bind "$0/run" "$0/rootfs/run/livery" &&
  mount --bind "$0/etc" "$0/rootfs/etc/livery" && mount -o remount,bind,ro "$0/rootfs/etc/livery" &&
  mount -t proc proc "$0/rootfs/proc" && exec "$@"`

/** As runc does: the image's user, no new privileges, and the capabilities that the pod grants, which an exec takes away. */
function contained(capabilities: string, command: readonly string[]): Command {
  const user = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs']
  const sets = ['inh', 'ambient', 'bounding'].map(
    set => `--${set}-${set === 'bounding' ? 'set' : 'caps'}=${capabilities}`,
  )
  const inside = ['chroot', image, '/usr/bin/setpriv', ...user, ...sets, ...command]
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child']
  const [, path = ''] = /^ENV PATH=(\S+)/m.exec(DOCKERFILE) ?? []
  const environment = ['env', '-i', `PATH=${path}:/usr/sbin:/bin`, 'LIVERY_CONFIG=/etc/livery/livery.yaml']
  return new Command('unshare', [...namespaces, 'sh', '-c', MOUNTS, folder, ...environment, ...inside], {
    cwd: '/',
    env: shellEnvironment(),
  })
}

async function outputOf(capabilities: string, ...command: readonly string[]): Promise<string> {
  await using running = contained(capabilities, command)
  await running.ended
  return running.output
}

// The tests below run what this one leaves.
test('the script of the Dockerfile lays out the root file system', { skip, timeout: 300_000 }, async () => {
  const [, script = ''] = /^RUN \S+node (\S+) --out/m.exec(DOCKERFILE) ?? []
  await using laying = new Command(process.execPath, [join(repository, script), '--out', image], {
    cwd: repository,
    env: shellEnvironment(),
  })
  assert.equal(await laying.code(), 0, laying.output)
  for (const path of [run, etc]) mkdirSync(path)
  chmodSync(folder, 0o755)
  // The owner of the socket is another user, which takes both capabilities.
  const socket = { path: '/run/livery/web.sock', owner: PROXY, mode: '0600' }
  const config = { ca: { plugin: 'embedded', directory: '/run/livery/ca' }, identities: [{ id: WEB, socket }] }
  writeFileSync(
    join(etc, 'livery.yaml'),
    JSON.stringify({ ...config, admin: { address: 'unix:/run/livery/admin.sock' } }),
  )
})

test('nothing in it can be changed by its user, and only the launcher has capabilities', { skip }, () => {
  for (const entry of globSync('**', { cwd: image, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const { uid, mode } = statSync(path)
    assert.deepEqual([uid, mode & 0o022], [0, 0], path)
  }
  const { stdout } = spawnSync('getcap', ['-r', image], { encoding: 'utf8' })
  assert.equal(stdout.replace(image, '').trim(), '/usr/bin/setpriv cap_chown,cap_dac_override=p')
})

test('as the pod runs it, the agent serves an identity from a read-only root', { skip }, async () => {
  const capabilities = ['+chown,+dac_override'].flatMap(set => [`--inh-caps=${set}`, `--ambient-caps=${set}`])
  const agent = contained(GRANTED, ['/usr/bin/setpriv', ...capabilities, '/usr/bin/livery', 'run'])
  try {
    await agent.line(/livery .* serves/)
    assert.match(agent.output, /keys: ecdsa-p256, native/)
    const [secret] = await fetchSecrets(join(run, 'web.sock'), ['default'])
    assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${WEB}`)
    assert.equal(statSync(join(run, 'web.sock')).uid, PROXY)
    // As `kubectl exec` would: without capabilities.
    assert.match(await outputOf(NONE, '/usr/bin/livery', 'certs'), /sa\/web +Available/)
    assert.match(await outputOf(NONE, '/usr/bin/node', '-e', 'fs.writeFileSync("/usr/bin/node", "")'), /EROFS|EACCES/)
  } finally {
    await agent[Symbol.asyncDispose]()
  }
})

test('the bill of materials lists each package, and every plugin of a CA can be loaded', { skip }, async () => {
  const modules = join(image, 'usr/lib/livery/node_modules')
  const laid = globSync('**/package.json', { cwd: modules })
    .filter(file => /(^|node_modules\/)(@[^/]+\/)?[^/]+\/package\.json$/.test(file))
    .map(file => readManifest(join(modules, file)))
  const bill: { readonly components: readonly Manifest[] } = JSON.parse(
    readFileSync(join(image, 'usr/share/livery/livery.cdx.json'), 'utf8'),
  )
  const listed = new Set(bill.components.map(({ name, version }) => `${name} ${version}`))
  assert.ok(laid.length > 50)
  assert.deepEqual(
    laid.map(({ name, version }) => `${name} ${version}`).filter(each => !listed.has(each)),
    [],
  )
  for (const name of ['node', 'libc6', 'util-linux'])
    assert.ok(
      bill.components.some(component => component.name === name),
      name,
    )

  const { exports = {} } = readManifest(join(modules, '@livery/ca-plugins/package.json'))
  const names = Object.keys(exports).map(path => `@livery/ca-plugins${path.slice(1)}`)
  const script = `const from = require('node:module').createRequire('/usr/lib/livery/node_modules/@livery/agent/package.json')
    for (const name of ${JSON.stringify([...names, 'google-auth-library'])}) console.log(name, Object.keys(from(name)).length)`
  const imported = await outputOf(NONE, '/usr/bin/node', '-e', script)
  for (const name of [...names, 'google-auth-library']) assert.match(imported, new RegExp(`^${name} [1-9]`, 'm'))
})

test('without the capabilities the image runs all the same, and the launcher is refused', { skip }, async () => {
  assert.match(await outputOf(NONE, '/usr/bin/livery', '--version'), /^\d+\.\d+\.\d+/)
  assert.match(await outputOf(NONE, '/usr/bin/setpriv', '--inh-caps=+chown', '/usr/bin/livery'), /not permitted/)
})

interface Manifest {
  readonly name: string
  readonly version: string
  readonly exports?: Readonly<Record<string, unknown>>
}

function readManifest(file: string): Manifest {
  return JSON.parse(readFileSync(file, 'utf8'))
}
