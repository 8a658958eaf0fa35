/** The files of the container image, and the program in it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ImageRoot, noImage as skip, type Volume } from './image-root.ts'
import { fetchSecrets } from './sds-client.ts'

/** One list for the launcher and the image. */
const { NODE_OPTIONS }: { readonly NODE_OPTIONS: readonly string[] } = await import(
  new URL('../bin/node-options.js', import.meta.url).href
)
const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const PROXY = 1_337

const image = new ImageRoot()
after(() => image[Symbol.dispose]())
const run = join(image.folder, 'run')
const etc = join(image.folder, 'etc')
const volumes: readonly Volume[] = [
  { from: run, to: '/run/livery', isWritable: true },
  { from: etc, to: '/etc/livery' },
]

// The tests below run what this one leaves.
test('the script of the Dockerfile lays out the root file system', { skip, timeout: 300_000 }, async () => {
  await image.lay()
  for (const path of [run, etc]) mkdirSync(path)
  // The owner of the socket is another user, which takes both capabilities.
  const socket = { path: '/run/livery/web.sock', owner: PROXY, mode: '0600' }
  const config = { ca: { plugin: 'embedded', directory: '/run/livery/ca' }, identities: [{ id: WEB, socket }] }
  writeFileSync(
    join(etc, 'livery.yaml'),
    JSON.stringify({ ...config, admin: { address: 'unix:/run/livery/admin.sock' } }),
  )
})

test('nothing in it can be changed by its user, and only the launcher has capabilities', { skip }, () => {
  // A glob leaves out folders that start with a dot.
  const compiled = join(image.path, 'usr/lib/livery/node_modules/@livery/agent/.cache')
  const entries = [image.path, compiled].flatMap(cwd => globSync('**', { cwd, withFileTypes: true }))
  assert.ok(entries.some(({ parentPath }) => parentPath.startsWith(join(compiled, 'compiled'))))
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    const { uid, mode } = statSync(path)
    assert.deepEqual([uid, mode & 0o022], [0, 0], path)
  }
  const { stdout } = spawnSync('getcap', ['-r', image.path], { encoding: 'utf8' })
  assert.equal(stdout.replace(image.path, '').trim(), '/usr/bin/setpriv cap_chown,cap_dac_override=p')
})

test('as the pod runs it, the agent serves an identity from a read-only root', { skip }, async () => {
  const launcher = ['/usr/bin/setpriv', '--inh-caps=+chown,+dac_override', '--ambient-caps=+chown,+dac_override']
  await using agent = image.run({
    command: [...launcher, '/usr/bin/livery', 'run'],
    capabilities: ['CHOWN', 'DAC_OVERRIDE'],
    volumes,
    environment: { NODE_DEBUG: 'livery' },
  })
  await agent.line(/livery .* serves/)
  assert.match(agent.output, /the compiled code in \S+ is taken/)
  // A second Node would have the path of the launcher.
  assert.deepEqual(commandLine(agent.pid), ['/usr/bin/node', ...NODE_OPTIONS, '/usr/bin/livery', 'run'])
  assert.match(agent.output, /keys: ecdsa-p256, native/)
  const [secret] = await fetchSecrets(join(run, 'web.sock'), ['default'])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${WEB}`)
  assert.equal(statSync(join(run, 'web.sock')).uid, PROXY)
  assert.ok(statSync(join(image.path, 'usr/lib/livery/node_modules/@livery/agent/page-dist/app.js')).isFile())
  // As `kubectl exec` would: without capabilities.
  assert.match(await outputOf('/usr/bin/livery', 'certs'), /sa\/web +Available/)
  assert.match(await outputOf('/usr/bin/node', '-e', 'fs.writeFileSync("/usr/bin/node", "")'), /EROFS|EACCES/)
})

test('the bill of materials lists each package, and every plugin of a CA can be loaded', { skip }, async () => {
  const modules = join(image.path, 'usr/lib/livery/node_modules')
  const laid = globSync('**/package.json', { cwd: modules })
    .filter(file => /(^|node_modules\/)(@[^/]+\/)?[^/]+\/package\.json$/.test(file))
    .map(file => readManifest(join(modules, file)))
  const bill: { readonly components: readonly Manifest[] } = JSON.parse(
    readFileSync(join(image.path, 'usr/share/livery/livery.cdx.json'), 'utf8'),
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
  const imported = await outputOf('/usr/bin/node', '-e', script)
  for (const name of [...names, 'google-auth-library']) assert.match(imported, new RegExp(`^${name} [1-9]`, 'm'))
})

test('without the capabilities the image runs all the same, and the launcher is refused', { skip }, async () => {
  assert.match(await outputOf('/usr/bin/livery', '--version'), /^\d+\.\d+\.\d+/)
  assert.match(await outputOf('/usr/bin/setpriv', '--inh-caps=+chown', '/usr/bin/livery'), /not permitted/)
})

interface Manifest {
  readonly name: string
  readonly version: string
  readonly exports?: Readonly<Record<string, unknown>>
}

function readManifest(file: string): Manifest {
  return JSON.parse(readFileSync(file, 'utf8'))
}

function outputOf(...command: readonly string[]): Promise<string> {
  return image.outputOf({ command, volumes })
}

/** Of what `unshare` has started. */
function commandLine(unshare = 0): readonly string[] {
  const children = readFileSync(`/proc/${unshare}/task/${unshare}/children`, 'utf8')
  return readFileSync(`/proc/${children.trim()}/cmdline`, 'utf8').split('\0').slice(0, -1)
}
