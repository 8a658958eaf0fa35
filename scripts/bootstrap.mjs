// Sets the workspace up: dependencies, native addon, and with --envoy the Envoy that the tests use. Does what is missing or
// stale and nothing else; runs on the machine's own Node (18 or newer), since the pinned one comes with the dependencies.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { envoyBinary } from './envoy.mjs'
import { unverifiedPackages } from './lockfile-integrity.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = join(root, 'node_modules', '.bin')

installDependencies()
buildAddon()
if (process.argv.includes('--envoy')) envoyBinary()

function installDependencies() {
  const stamp = join(root, 'node_modules', '.livery-stamp')
  const wanted = fingerprint([join(root, 'package-lock.json')])
  if (existsSync(join(bin, 'nx')) && read(stamp) === wanted) return
  say('installing the dependencies of the lockfile (about half a minute)')
  const npm = spawnSync('npm', ['ci', '--loglevel=error', '--no-audit', '--no-fund'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  if (npm.status !== 0) fail('`npm ci` failed: see its messages above; it needs the npm registry')
  for (const [place] of unverifiedPackages())
    say(`${place} was installed without a hash in the lockfile to check it by`)
  checkNode()
  writeFileSync(stamp, wanted)
}

/** The pinned Node is a package of the platform, as the lockfile has it; where none runs (musl, say), the machine's own serves. */
function checkNode() {
  const pinned = join(bin, 'node')
  if (spawnSync(pinned, ['--version']).status === 0) return
  rmSync(pinned, { force: true })
  const major = Number.parseInt(process.versions.node, 10)
  if (major < 24)
    fail(`no Node is pinned for ${process.platform}-${process.arch}, and this one is ${major}: install Node 24`)
  say(`no Node is pinned for ${process.platform}-${process.arch}: going on with this one, ${process.version}`)
}

function buildAddon() {
  const folder = join(root, 'packages', 'native-keygen')
  const stamp = join(root, '.cache', 'native-stamp')
  const sources = ['Cargo.toml', 'Cargo.lock'].map(name => join(root, name))
  for (const name of ['Cargo.toml', 'build.rs']) sources.push(join(folder, name))
  for (const name of readdirSync(join(folder, 'rust'), { recursive: true }))
    sources.push(join(folder, 'rust', `${name}`))
  const wanted = fingerprint(sources.filter(path => existsSync(path) && path.match(/\.(rs|toml|lock)$/)).sort())
  const built = readdirSync(folder).some(name => name.endsWith('.node'))
  if (built && read(stamp) === wanted) return
  if (spawnSync('cargo', ['--version']).status !== 0) {
    say('no cargo here: keys come from WebCrypto, slower; install Rust (rustup.rs) for the native addon')
    return
  }
  say('building the native addon (a minute or two, once)')
  const build = spawnSync(join(bin, 'nx'), ['run', 'native-keygen:native'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, NX_DAEMON: 'false' },
  })
  if (build.status !== 0) {
    if (process.env.CI) fail('the native addon did not build: see the messages above')
    say('the native addon did not build (messages above): going on with what is there, or WebCrypto')
    return
  }
  mkdirSync(join(root, '.cache'), { recursive: true })
  writeFileSync(stamp, wanted)
}

function fingerprint(paths) {
  const hash = createHash('sha256').update(`${process.platform}-${process.arch}`)
  for (const path of paths) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

function read(path) {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined
}

function say(text) {
  process.stderr.write(`livery setup: ${text}\n`)
}

function fail(text) {
  say(text)
  process.exit(1)
}
