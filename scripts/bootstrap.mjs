// Sets the workspace up: dependencies, the page in the browser, the native addon, and with --envoy the Envoy that the tests use. Does
// only the steps that are due; runs on the machine's own Node (18 or newer), since the pinned one is a dependency. With --serve-first
// the page and the addon are built in the background, for the process that started this one.
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isNeededNode, NEEDED_NODE } from '../packages/agent/bin/needed-node.js'
import { buildPage, isPageCurrent } from '../packages/page/build.mjs'
import { ADDON_LOG, ADDON_PID, addonState, buildAddon, hasCargo } from './addon.mjs'
import { envoyBinary } from './envoy.mjs'
import { unverifiedPackages } from './lockfile-integrity.mjs'
import { fingerprint, isDone, root, runGroup, say } from './setup-step.mjs'

const bin = join(root, 'node_modules', '.bin')
const PROGRESS_EVERY_MS = 15_000
/**
 * The lockfile has the hashes, so npm need not compare its cache with the registry. An unreachable registry is asked twice, within
 * seconds; one that accepts a connection and does not answer is given up after two minutes.
 */
const NPM_OPTIONS = [
  '--prefer-offline',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
  '--fetch-timeout=60000',
  '--loglevel=error',
  '--no-audit',
  '--no-fund',
  '--no-progress',
]

checkFolder()
await installDependencies()
await providePage()
await provideAddon()
if (process.argv.includes('--envoy')) envoyBinary()

/** One clear message: npm, the page and the agent would each fail in different words. */
function checkFolder() {
  try {
    accessSync(root, constants.W_OK)
  } catch {
    fail(`this user cannot write to ${root}: run this as the owner of the folder, or in a clone of your own`)
  }
}

async function installDependencies() {
  const stamp = join(root, 'node_modules', '.livery-stamp')
  const wanted = fingerprint([join(root, 'package-lock.json')])
  if (isDone(stamp, wanted)) return
  say('installing the dependencies of the lockfile, from the npm cache or the registry (about half a minute)')
  const start = Date.now()
  const progress = setInterval(
    () => say(`still waiting for npm, for ${Math.round((Date.now() - start) / 1_000)} s: Ctrl-C ends it`),
    PROGRESS_EVERY_MS,
  )
  const status = await runGroup('npm', ['ci', ...NPM_OPTIONS, ...cacheOption()], { cwd: root, output: 2 })
  clearInterval(progress)
  if (status !== 0)
    fail(
      `\`npm ci\` failed: see its messages above. ${proxyHint()}Run this with access to the npm registry, or once with it, which fills the npm cache`,
    )
  for (const [place] of unverifiedPackages())
    say(`${place} was installed without a hash in the lockfile to check it by`)
  checkNode()
  writeFileSync(stamp, wanted)
}

/** A user without a home that it can write to has no cache: npm would advise to run chown. `npm start` says where the cache is. */
function cacheOption() {
  const cache = process.env.npm_config_cache
  try {
    if (cache) accessSync(mkdirSync(cache, { recursive: true }) ?? cache, constants.W_OK)
    return []
  } catch {
    const own = join(root, '.cache', 'npm')
    say(`this user cannot write to the npm cache ${cache}: npm uses ${own}`)
    return ['--cache', own]
  }
}

/** The variables of the proxy that npm uses, without its address, which can hold a password. */
function proxyHint() {
  const names = Object.keys(process.env).filter(name => /^(?:npm_config_)?(?:https?_)?proxy$/i.test(name))
  const set = names.filter(name => process.env[name])
  return set.length === 0 ? '' : `npm asks through a proxy: correct or unset ${set.join(', ')} if it is not reachable. `
}

/** The lockfile pins Node as a package of the platform; if none runs (musl, say), the machine's own Node serves. */
function checkNode() {
  const pinned = join(bin, 'node')
  if (spawnSync(pinned, ['--version']).status === 0) return
  rmSync(pinned, { force: true })
  if (!isNeededNode(process.versions.node))
    fail(
      `no Node is pinned for ${process.platform}-${process.arch}, and this one is ${process.version}: install Node ${NEEDED_NODE}`,
    )
  say(`no Node is pinned for ${process.platform}-${process.arch}: using this one, ${process.version}`)
}

/** The build takes less than half a second. With --serve-first the agent serves meanwhile, and reads the page on request. */
async function providePage() {
  if (isPageCurrent()) return
  if (process.argv.includes('--serve-first')) return void runDetached(join(root, 'packages', 'page', 'build.mjs'))
  try {
    await buildPage()
  } catch (error) {
    if (process.env.CI) throw error
    say(`the page in the browser did not build, all else works: ${error.message}`)
  }
}

async function provideAddon() {
  const state = addonState()
  if (state === 'current') return
  if (!hasCargo()) {
    say('cargo was not found: keys come from WebCrypto, slower; install Rust (rustup.rs) for the native addon')
    return
  }
  const canServeWithout = process.env.LIVERY_KEYGEN !== 'native'
  if (process.argv.includes('--serve-first') && canServeWithout) return buildAddonInBackground(state)
  say('building the native addon (a minute or two, once)')
  if (await buildAddon(2)) return
  if (process.env.CI) fail('the native addon did not build: see the messages above')
  say('the native addon did not build (messages above): keys come from the previous build, or from WebCrypto')
}

/** `process.ppid` is the shell of `npm start`, which becomes the agent (`exec`). */
function buildAddonInBackground(state) {
  const meanwhile = state === 'stale' ? 'the previous build is used' : 'keys come from WebCrypto, slower'
  say(`building the native addon in the background, for the next start; until then ${meanwhile} (log: ${ADDON_LOG})`)
  const { pid } = runDetached(join(root, 'scripts', 'addon.mjs'), '--while', `${process.ppid}`)
  mkdirSync(dirname(ADDON_PID), { recursive: true })
  writeFileSync(ADDON_PID, `${pid}`)
}

function runDetached(...args) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 2], detached: true })
  child.unref()
  return child
}

function fail(text) {
  say(text)
  process.exit(1)
}
