/** What would be published: every package is packed, installed into an empty folder, and imported by each of its names. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
const PACKAGES = ['core', 'native-keygen', 'ca-plugins', 'sds-server', 'agent']

interface Manifest {
  readonly name: string
  readonly exports: Record<string, unknown>
}

test('the packed packages install into an empty folder, and every name in their exports can be imported', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'livery-packed-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  // nx refuses to run inside itself.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('NX_')))
  await run('npm', ['run', 'build'], { cwd: root, env })
  const workspaces = PACKAGES.flatMap(name => ['--workspace', `packages/${name}`])
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder, ...workspaces], { cwd: root })
  const packed = Object.values(JSON.parse(stdout) as Record<string, { filename: string; files: { path: string }[] }>)
  assert.equal(packed.length, PACKAGES.length)
  for (const { filename, files } of packed) {
    const strays = files.map(file => file.path).filter(path => /\.test\.|^src\/|^rust\/|\.node$/.test(path))
    assert.deepEqual(strays, [], filename)
  }

  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  const tarballs = packed.map(({ filename }) => `./${filename}`)
  await run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: folder })

  const manifests = await Promise.all(
    PACKAGES.map(
      async name => JSON.parse(await readFile(join(root, 'packages', name, 'package.json'), 'utf8')) as Manifest,
    ),
  )
  const names = manifests.flatMap(({ name, exports }) =>
    Object.keys(exports)
      .filter(path => !path.endsWith('.json'))
      .map(path => name + path.slice(1)),
  )
  const script = `for (const name of ${JSON.stringify(names)}) {
    const names = Object.keys(await import(name))
    if (names.length === 0) throw new Error(name + ' exports nothing')
    console.log(name, names.length)
  }`
  const imported = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder })
  assert.equal(imported.stdout.trim().split('\n').length, names.length)

  const help = await run(process.execPath, [join(folder, 'node_modules', '.bin', 'livery'), '--help'], { cwd: folder })
  assert.match(help.stdout, /livery/)
})
