/** A stranger's plugin: `npm create` makes the example in an empty folder, outside the workspace, and it proves itself with packed packages. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryFolder } from '@livery/test-support'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
const WRONG_NAME = /a name begins with a letter and has a-z, 0-9 and -\. Name it such as my-ca/
const LEFT_OUT = new Set(['dist', 'node_modules', 'test'])

test('the plugin that npm create makes passes the conformance suite in an empty folder, with packed packages', async t => {
  const folder = temporaryFolder(t)
  const tarballs = await packPackages(join(folder, 'source'), folder)
  const example = join(folder, 'my-ca')
  const creator = await unpackCreator(join(folder, 'creator'))
  const create = (...words: readonly string[]) => run(process.execPath, [creator, ...words], { cwd: folder })
  await assert.rejects(create(), /it has no name/)
  for (const name of ['My-CA', 'my ca', '../my-ca', '1ca', '--name', '']) await assert.rejects(create(name), WRONG_NAME)
  assert.match((await create('--help')).stdout, /^Usage: npm create @livery\/ca-plugin NAME\n/)
  await create('my-ca')
  await assert.rejects(create('my-ca'), /Cannot make the plugin my-ca: \/\S+ exists\. Choose another name/)
  await run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: example })

  // Run by a test, node would take itself for one of its parts, and print for that.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = ['--test', '--test-reporter=tap', 'conformance.test.ts']
  const { stdout } = await run(process.execPath, args, { cwd: example, env })
  const count = (what: string) => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(stdout)?.[1])
  assert.equal(count('fail'), 0, stdout)
  assert.ok(count('pass') > 50, stdout)

  // Node strips no types below node_modules, so what is published is built. The compiler sees the packed declarations.
  await run('npm', ['run', 'build'], { cwd: example, env })
  const load = `import { plugin } from './dist/index.js'; console.log(plugin.name)`
  const built = await run(process.execPath, ['--input-type=module', '--eval', load], { cwd: example, env })
  assert.equal(built.stdout.trim(), 'my-ca')
  for (const file of ['package.json', 'README.md']) assert.match(await readFile(join(example, file), 'utf8'), /my-ca/)
})

/** The program of `npm create`, packed and unpacked. */
async function unpackCreator(folder: string): Promise<string> {
  await mkdir(folder)
  const cwd = join(root, 'packages', 'create-ca-plugin')
  await run('npm', ['run', 'build'], { cwd })
  await run('npm', ['pack', '--pack-destination', folder], { cwd })
  const [tarball = ''] = await readdir(folder)
  await run('tar', ['-xzf', tarball], { cwd: folder })
  return join(folder, 'package', 'create.mjs')
}

/** Built apart, since another test file may be building in the workspace at this moment. */
async function packPackages(source: string, destination: string): Promise<readonly string[]> {
  await mkdir(join(source, 'packages'), { recursive: true })
  await symlink(join(root, 'node_modules'), join(source, 'node_modules'))
  for (const file of ['tsconfig.base.json', 'webcrypto-globals.d.ts']) await cp(join(root, file), join(source, file))
  for (const name of ['core', 'ca-plugins']) {
    const cwd = join(source, 'packages', name)
    await cp(join(root, 'packages', name), cwd, {
      recursive: true,
      filter: path => !LEFT_OUT.has(basename(path)) && !path.endsWith('.test.ts'),
    })
    await linkModules(join(root, 'packages', name, 'node_modules'), join(cwd, 'node_modules'))
    await symlink(join(source, 'packages', 'core'), join(cwd, 'node_modules', '@livery', 'core'))
    await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd })
    await run('npm', ['pack', '--pack-destination', destination], { cwd })
  }
  const files = await readdir(destination)
  return files.filter(file => file.endsWith('.tgz')).map(file => join(destination, file))
}

/** Links the package's own dependencies; its neighbour is put beside it, not the workspace's. */
async function linkModules(from: string, to: string): Promise<void> {
  await mkdir(join(to, '@livery'), { recursive: true })
  const own = existsSync(from) ? await readdir(from) : []
  for (const name of own.filter(name => name !== '@livery')) await symlink(join(from, name), join(to, name))
}
