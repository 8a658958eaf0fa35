import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { findAddon } from './addon.ts'

const PLATFORM = process.platform === 'linux' ? `linux-${process.arch}-gnu` : `${process.platform}-${process.arch}`

async function emptyFolder(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'livery-'))
  context.after(() => rm(folder, { recursive: true }))
  return folder
}

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
  return found.reason
}

test('without any addon the reason names what was looked for and how to get it', async context => {
  const reason = reasonIn(await emptyFolder(context))
  assert.ok(reason.includes(`./livery-native-keygen.${PLATFORM}.node is absent`), reason)
  assert.ok(reason.includes(`@livery/native-keygen-${PLATFORM} is absent`), reason)
  assert.match(reason, /npm run native/)
})

test('a build that does not load is a reason, and no crash', async context => {
  const folder = await emptyFolder(context)
  await writeFile(join(folder, `livery-native-keygen.${PLATFORM}.node`), 'not a library')
  assert.match(reasonIn(folder), /\.node does not load: Error/)
})

test('the package of the platform is taken where there is no local build', async context => {
  const folder = await emptyFolder(context)
  const names = [
    'acceptWaiting',
    'disableCoreDumps',
    'KeyPool',
    'KeyQueue',
    'keyVaultStatus',
    'openKey',
    'peerCredentials',
    'publicKeyOf',
    'readChain',
    'sealKey',
    'TrustAnchor',
  ]
  await installPlatformPackage(folder, names.map(name => `exports.${name} = () => '${name}'`).join('\n'))
  const { addon } = findAddon(folder)
  assert.equal(String(addon?.peerCredentials), "() => 'peerCredentials'")
})

test('an addon of another version is refused with the reason', async context => {
  const folder = await emptyFolder(context)
  await installPlatformPackage(folder, 'exports.KeyQueue = class {}')
  assert.match(reasonIn(folder), /is of another version/)
})

test('a package whose own dependency is missing is not called absent', async context => {
  const folder = await emptyFolder(context)
  await installPlatformPackage(folder, 'require("./binary.node")')
  assert.match(reasonIn(folder), /does not load: Error: Cannot find module '\.\/binary\.node'/)
})
