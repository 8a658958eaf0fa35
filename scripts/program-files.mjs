// The program as it is laid out beside its Node: its run-time packages, its bill of materials, and the code that V8 compiles for a
// start. The container image and the archive are made of these.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { root, runGroup } from './setup-step.mjs'

/** The packages that no other package needs: the program, and an optional one that its plugin `google-ca` loads. */
const TOP = ['packages/agent', 'node_modules/google-auth-library']
/** Extensions of files that are neither run nor a licence. */
const UNUSED = new Set(['.ts', '.mts', '.cts', '.map', '.md', '.tsbuildinfo'])

/** A message of the program under NODE_DEBUG=livery: see packages/agent/bin/bundled-program.js. */
const KEPT = /the compiled code is kept/
const KEPT_OR_NOT = /the compiled code (is|cannot be) kept/

const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages

export const VERSION = lockfile['packages/agent'].version
/** A path below the folder of the program. */
export const AGENT = 'node_modules/@livery/agent'
/** The code that V8 compiled, in the package of the agent. */
export const CACHE = `${AGENT}/.cache`

export async function build() {
  if ((await runGroup('npm', ['run', 'build'], { cwd: root, output: 2 })) !== 0)
    throw new Error('npm run build failed: see its messages above')
}

/** Copies the packages, and the addon at the path `addon`, into `folder`; everything has to be built already. */
export function layPackages(folder, addon) {
  for (const place of places()) copyPackage(place, folder)
  const name = `livery-native-keygen.${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}.node`
  const from = addon ?? join(root, 'packages/native-keygen', name)
  if (!existsSync(from)) throw new Error(`there is no addon at ${from}: run npm run native`)
  lay(from, join(folder, 'node_modules/@livery/native-keygen', name))
  return from
}

function places() {
  return [...closure(TOP)].sort()
}

/** Every place in the lockfile that these need at run time, found by Node's rules. */
function closure(tops) {
  const found = new Set()
  const visit = place => {
    if (found.has(place)) return
    found.add(place)
    const { dependencies, optionalDependencies } = lockfile[place]
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const next = resolvePlace(place, name)
      if (next !== undefined && !name.startsWith('@types/')) visit(next)
    }
  }
  for (const place of tops) visit(place)
  return found
}

/** The place of a dependency of the package at `from`; `undefined` for an optional one of another platform. */
function resolvePlace(from, name) {
  for (let folder = from; ; folder = folder.includes('/') ? dirname(folder) : '') {
    const place = join(folder, 'node_modules', name)
    const entry = lockfile[place]
    if (entry?.link) return entry.resolved
    if (entry && existsSync(join(root, place))) return place
    if (folder === '') return undefined
  }
}

function copyPackage(place, folder) {
  const [, ours, below = ''] = /^packages\/([^/]+)(.*)$/.exec(place) ?? []
  const to = join(folder, ours === undefined ? place : `node_modules/@livery/${ours}${below}`)
  const isOurs = ours !== undefined && below === ''
  for (const file of globSync('**', { cwd: join(root, place), exclude: ['node_modules'], withFileTypes: true })) {
    if (!file.isFile()) continue
    const path = join(file.parentPath, file.name)
    const inside = path.slice(join(root, place).length + 1)
    if (isOurs ? /^(bin|dist|page-dist)\/|^(package\.json|LICENSE)$/.test(inside) : !inside.startsWith('node_modules/'))
      if (!UNUSED.has(extname(inside)) || /licen[cs]e|notice/i.test(file.name)) lay(path, join(to, inside))
  }
  if (ours === 'native-keygen') lay(join(root, place, 'THIRD-PARTY-NOTICES.md'), join(to, 'THIRD-PARTY-NOTICES.md'))
}

/** Starts the program once with `command`, in the empty folder `work`, until it has kept the code that V8 compiled. It needs no CA for that. `from`: how the command names the folder. */
export async function keepCompiledCode([file, ...args], { work, from = work, cwd, env = {} }) {
  const config = {
    ca: { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'system' },
    identities: [{ id: 'spiffe://cluster.local/first-start', socket: 'sds.sock' }],
    admin: { address: 'unix:admin.sock' },
  }
  writeFileSync(join(work, 'livery.yaml'), JSON.stringify(config))
  const agent = spawn(file, [...args, 'run', '--config', `${from}/livery.yaml`], {
    cwd,
    env: { ...env, NODE_DEBUG: 'livery' },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  let log = ''
  agent.stderr.setEncoding('utf8').on('data', text => {
    const wasDone = KEPT_OR_NOT.test(log)
    log += text
    if (!wasDone && KEPT_OR_NOT.test(log)) agent.kill('SIGTERM')
  })
  const [code] = await once(agent, 'close')
  if (code !== 0 || !KEPT.test(log)) throw new Error(`the program that was laid out does not start: ${log}`)
}

/** CycloneDX: the packages of the lockfile, Node, and the other components. */
export function billOfMaterials(type, others = []) {
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: { type, name: 'livery', version: VERSION, 'bom-ref': 'livery' } },
    components: [...places().map(npmComponent), nodeComponent(), ...others],
  }
  return `${JSON.stringify(bill, undefined, 2)}\n`
}

function npmComponent(place) {
  const { version, integrity, license } = { ...readManifest(place), ...lockfile[place] }
  const purl = `pkg:npm/${packageName(place).replace('@', '%40')}@${version}`
  const hash = /^sha512-(.+)$/.exec(integrity)?.[1]
  return {
    type: 'library',
    'bom-ref': purl,
    name: packageName(place),
    version,
    purl,
    ...(hash && { hashes: [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }] }),
    ...(license && { licenses: [{ expression: license }] }),
  }
}

function nodeComponent() {
  const { node: version } = process.versions
  return { type: 'application', 'bom-ref': 'node', name: 'node', version, purl: `pkg:generic/node@${version}` }
}

function readManifest(place) {
  return JSON.parse(readFileSync(join(root, place, 'package.json'), 'utf8'))
}

function packageName(place) {
  return lockfile[place].name ?? place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

export function lay(from, to, mode = 0o644) {
  mkdirSync(dirname(to), { recursive: true, mode: 0o755 })
  copyFileSync(from, to)
  chmodSync(to, mode)
}

export function write(to, text, mode = 0o644) {
  mkdirSync(dirname(to), { recursive: true, mode: 0o755 })
  writeFileSync(to, text, { mode })
}
