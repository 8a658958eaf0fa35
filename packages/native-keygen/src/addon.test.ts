import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { ABI, BUILD_PID, findAddon } from './addon.ts'

const PLATFORM = process.platform === 'linux' ? `linux-${process.arch}-gnu` : `${process.platform}-${process.arch}`

/** The optional package of this platform, with JavaScript in place of a binary. */
async function installPlatformPackage(folder: string, source: string): Promise<void> {
  const home = join(folder, 'node_modules', '@livery', `native-keygen-${PLATFORM}`)
  await mkdir(home, { recursive: true })
  await writeFile(join(home, 'package.json'), '{"main":"index.cjs"}')
  await writeFile(join(home, 'index.cjs'), source)
}

function reasonIn(folder: string): string {
  const found = findAddon(folder)
  assert.equal(found.addon, undefined)
  return `${found.reason}. ${found.remedy}`
}

test('without any addon the reason names what was looked for and how to get it', async context => {
  const reason = reasonIn(temporaryFolder(context))
  assert.match(reason, new RegExp(`: none is here for ${PLATFORM}`))
  assert.match(reason, new RegExp(`npm run native.*install @livery/native-keygen-${PLATFORM}`))
})

test('while a build runs in the background, the remedy is to wait for it', async context => {
  const folder = temporaryFolder(context)
  await mkdir(join(folder, dirname(BUILD_PID)))
  await writeFile(join(folder, BUILD_PID), `${process.pid}`)
  assert.match(reasonIn(folder), /is building it in the background: restart the agent when that is done$/)
  // Above the largest process id of Linux.
  await writeFile(join(folder, BUILD_PID), '4194305')
  assert.match(reasonIn(folder), /Run "npm run native"/)
})

test('a build that does not load is a reason, and no crash', async context => {
  const folder = temporaryFolder(context)
  await writeFile(join(folder, `livery-native-keygen.${PLATFORM}.node`), 'not a library')
  assert.match(reasonIn(folder), /\.node does not load: Error/)
})

test('the package of the platform is taken where there is no local build', async context => {
  const folder = temporaryFolder(context)
  await installPlatformPackage(folder, `exports.ABI = ${ABI}; exports.peerCredentials = () => 'peerCredentials'`)
  const { addon } = findAddon(folder)
  assert.equal(String(addon?.peerCredentials), "() => 'peerCredentials'")
})

test('an addon with another ABI number, or with none, is refused with both numbers and the remedy', async context => {
  for (const [source, found] of [
    [`exports.ABI = ${ABI + 1}; exports.JobQueue = class {}`, `has ABI ${ABI + 1}`],
    ['exports.JobQueue = class {}', 'has no ABI number'],
  ] as const) {
    const home = temporaryFolder(context)
    await installPlatformPackage(home, source)
    const reason = reasonIn(home)
    assert.ok(reason.includes(`${found} where this version needs ABI ${ABI}`), reason)
    assert.match(reason, /Run "npm run native"/)
  }
})

/** Where this fails: raise `ABI` in src/addon.ts and rust/abi.rs, and put the new number and digest here. */
test('the ABI number belongs to the interface that the addon exports', async () => {
  const binding = await readFile(new URL('gen/binding.ts', import.meta.url), 'utf8')
  const surface = binding.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\s+/g, ' ')
  const digest = createHash('sha256').update(surface).digest('hex').slice(0, 16)
  assert.deepEqual({ abi: ABI, digest }, { abi: 9, digest: '858923b6ba5a0d59' })
})

test('a package whose own dependency is missing is not called absent', async context => {
  const folder = temporaryFolder(context)
  await installPlatformPackage(folder, 'require("./binary.node")')
  assert.match(reasonIn(folder), /does not load: Error: Cannot find module '\.\/binary\.node'/)
})
