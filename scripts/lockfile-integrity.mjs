// Refuses a package-lock.json with an entry that `npm ci` would install unchecked. `--fill` asks the registry for missing hashes: npm
// writes the optional packages of other platforms without their hash when it builds the lockfile from a folder.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Optional packages of other platforms that the authors' registry does not serve, so that their hashes are not known yet. The job
 * `dependencies` of ci.yml asks the public registry for them. Add nothing here: a new version comes with its hashes.
 */
const HASHES_TO_COME = {
  '@biomejs/cli': '2.6.8',
  '@bufbuild/buf': '1.75.0',
  '@napi-rs/lzma': '1.5.3',
  '@napi-rs/tar': '1.1.3',
  '@napi-rs/wasm-tools': '1.1.2',
  '@nx/nx': '24.0.6',
}

const root = fileURLToPath(new URL('..', import.meta.url))
const path = join(root, 'package-lock.json')

/** Packages in node_modules that were installed without a hash. */
export function unverifiedPackages() {
  return fetchedPackages(read()).filter(([place, { integrity }]) => !integrity && existsSync(join(root, place)))
}

function read() {
  return JSON.parse(readFileSync(path, 'utf8'))
}

/** The packages that npm fetches: not the root, its workspaces, and the links to them. */
function fetchedPackages(lockfile) {
  return Object.entries(lockfile.packages).filter(([place, entry]) => place.includes('node_modules/') && !entry.link)
}

function check() {
  const packages = fetchedPackages(read())
  const faults = packages.flatMap(([place, entry]) => faultsOf(place, entry).map(fault => `${place} ${fault}`))
  for (const fault of faults) console.error(`package-lock.json: ${fault}`)
  const open = packages.filter(([, { integrity }]) => !integrity).length
  console.log(`package-lock.json: ${packages.length} packages, ${open} without a hash, ${faults.length} faults`)
  if (faults.length > 0) process.exitCode = 1
}

function faultsOf(place, entry) {
  const faults = []
  if (!entry.integrity && !isToCome(place, entry))
    faults.push('has no integrity: run scripts/lockfile-integrity.mjs --fill')
  if (entry.integrity && !entry.integrity.startsWith('sha512-')) faults.push(`has no sha512 but ${entry.integrity}`)
  if (entry.resolved) faults.push('names where it was fetched: remove its "resolved", which .npmrc omits')
  return faults
}

function isToCome(place, { version, optional, os }) {
  const family = Object.keys(HASHES_TO_COME).find(name => place.startsWith(`node_modules/${name}-`))
  return (
    family !== undefined &&
    HASHES_TO_COME[family] === version &&
    optional === true &&
    (os !== undefined || /wasm/.test(place))
  )
}

function fill() {
  const lockfile = read()
  for (const [place, entry] of fetchedPackages(lockfile)) {
    if (entry.integrity) continue
    const integrity = registryIntegrity(`${entry.name ?? place.split('node_modules/').at(-1)}@${entry.version}`)
    // The key follows the version, as npm writes it, so that npm's next run changes nothing.
    const { version, ...rest } = entry
    if (integrity) lockfile.packages[place] = { version, integrity, ...rest }
  }
  writeFileSync(path, `${JSON.stringify(lockfile, undefined, 2)}\n`)
}

function registryIntegrity(spec) {
  const view = spawnSync('npm', ['view', '--json', spec, 'dist.integrity'], { encoding: 'utf8' })
  if (view.status === 0) return JSON.parse(view.stdout)
  console.error(`package-lock.json: the registry does not serve ${spec}`)
  return undefined
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--fill')) fill()
  check()
}
