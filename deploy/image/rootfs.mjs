// Lays out the root file system of the container image: `node deploy/image/rootfs.mjs --out DIR [--addon FILE]`. The Dockerfile runs
// it, and so does the test that starts what it has laid out. It needs the dependencies of the lockfile and Debian's ldd, setpriv, setcap
// and chroot, and makes files of the user that runs it: root, for the capabilities and for an image that its own user cannot change.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, extname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { NODE_OPTIONS } from '../../packages/agent/bin/node-options.js'
import { root, runGroup } from '../../scripts/setup-step.mjs'

/** Where the packages are in the image, by the names that they have in node_modules. */
const PREFIX = 'usr/lib/livery'
/** The packages that are not needed by another one: the program, and what its plugin `google-ca` loads where it is there. */
const TOP = ['packages/agent', 'node_modules/google-auth-library']
/** The user of the image; no other image should have it, since processes of one user can end each other. */
const UID = 15_100
/** Enough for the sockets of workloads: `deploy/helm/livery/README.md` says why. They count only where the pod grants them. */
const CAPABILITIES = 'cap_chown,cap_dac_override+p'
/** Neither run nor a licence. */
const UNUSED = new Set(['.ts', '.mts', '.cts', '.map', '.md', '.tsbuildinfo'])

/** What the program writes under NODE_DEBUG=livery: see packages/agent/bin/bundled-program.js. */
const KEPT = /the compiled code is kept/
const KEPT_OR_NOT = /the compiled code (is|cannot be) kept/

/** Of coreutils, for the options of Node in a first line. */
const ENV = '/usr/bin/env'
const SETPRIV = '/usr/bin/setpriv'
/** Of util-linux, for the volumes of pods. They keep no set-user-ID bit. */
const MOUNT = ['/usr/bin/mount', '/usr/bin/umount']

/** Files of Debian that were laid, by their paths here and there. */
const systemFiles = []
const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages

const { values: options } = parseArgs({ options: { out: { type: 'string' }, addon: { type: 'string' } } })
if (options.out === undefined) {
  console.error('rootfs: --out is missing: name an empty folder')
  process.exit(2)
}
const out = resolve(options.out)
const addonName = `livery-native-keygen.linux-${process.arch}-gnu.node`
const addon = resolve(options.addon ?? join(root, 'packages/native-keygen', addonName))
if (!existsSync(addon))
  throw new Error(`rootfs: there is no addon at ${addon}: run npm run native, or name it by --addon`)

if ((await runGroup('npm', ['run', 'build'], { cwd: root, output: 2 })) !== 0)
  throw new Error('npm run build failed: see its messages above')
const places = [...closure(TOP)].sort()
for (const place of places) copyPackage(place)
copyFileSync(addon, makeFolder(`${PREFIX}/node_modules/@livery/native-keygen/${addonName}`))
layProgram()
laySystem()
layBillOfMaterials()
await layCompiledCode()

/** Every place in the lockfile that these need at run time, found as Node finds it. */
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

function copyPackage(place) {
  const [, ours, below = ''] = /^packages\/([^/]+)(.*)$/.exec(place) ?? []
  const to = `${PREFIX}/${ours === undefined ? place : `node_modules/@livery/${ours}${below}`}`
  const isOurs = ours !== undefined && below === ''
  for (const file of globSync('**', { cwd: join(root, place), exclude: ['node_modules'], withFileTypes: true })) {
    if (!file.isFile()) continue
    const path = join(file.parentPath, file.name)
    const inside = path.slice(join(root, place).length + 1)
    if (isOurs ? /^(bin|dist|page-dist)\/|^(package\.json|LICENSE)$/.test(inside) : !inside.startsWith('node_modules/'))
      if (!UNUSED.has(extname(inside)) || /licen[cs]e|notice/i.test(file.name)) lay(path, `${to}/${inside}`)
  }
  if (ours === 'native-keygen') lay(join(root, place, 'THIRD-PARTY-NOTICES.md'), `${to}/THIRD-PARTY-NOTICES.md`)
}

/** Node itself, the command `livery`, and what gives it capabilities that the pod grants. */
function layProgram() {
  lay(realpathSync(process.execPath), 'usr/bin/node')
  const start = `#!${ENV} -S /usr/bin/node ${NODE_OPTIONS.join(' ')}\n`
  write('usr/bin/livery', `${start}import('/${PREFIX}/node_modules/@livery/agent/bin/livery.js')\n`, 0o755)
  const programs = [ENV, SETPRIV, ...MOUNT]
  systemFiles.push(...programs, ...new Set([process.execPath, ...programs, addon].flatMap(libraries)))
  for (const file of systemFiles) lay(file, file)
  // Kubernetes gives a user other than root no ambient capabilities: a file that has them is the way.
  execFileSync('setcap', [CAPABILITIES, join(out, 'usr/bin/setpriv')])
}

/** The shared libraries of a program, as its loader finds them. */
function libraries(file) {
  const listed = execFileSync('ldd', [file], { encoding: 'utf8' })
  return [...listed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path]) => path)
}

/** Users, names and the roots of public CAs: what the C library and Node read. */
function laySystem() {
  write('etc/passwd', `root:x:0:0:root:/:/sbin/nologin\nlivery:x:${UID}:${UID}:livery:/:/sbin/nologin\n`)
  write('etc/group', `root:x:0:\nlivery:x:${UID}:\n`)
  write('etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n')
  lay('/etc/ssl/certs/ca-certificates.crt', 'etc/ssl/certs/ca-certificates.crt')
  // Where a read-only root needs something to mount on.
  for (const folder of ['etc/livery', 'run/livery', 'var/run/secrets', 'proc', 'dev', 'sys', 'tmp'])
    mkdirSync(join(out, folder), { recursive: true })
}

/** What V8 compiles for a start, which its user can read and not write: the program starts once as it will in the image. It needs no CA for that. */
async function layCompiledCode() {
  const cache = join(out, PREFIX, 'node_modules/@livery/agent/.cache')
  const work = join(out, 'tmp/first-start')
  for (const folder of [join(cache, 'compiled'), work]) mkdirSync(folder, { recursive: true })
  const config = {
    ca: { plugin: 'citadel', address: '127.0.0.1:1', rootCert: 'system' },
    identities: [{ id: 'spiffe://cluster.local/first-start', socket: 'sds.sock' }],
    admin: { address: 'unix:admin.sock' },
  }
  writeFileSync(join(work, 'livery.yaml'), JSON.stringify(config))
  execFileSync('chown', ['-R', `${UID}:${UID}`, cache, work])
  const command = ['/usr/bin/livery', 'run', '--config', '/tmp/first-start/livery.yaml']
  const agent = spawn('/usr/sbin/chroot', [`--userspec=${UID}:${UID}`, out, ...command], {
    cwd: '/',
    env: { NODE_DEBUG: 'livery' },
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
  rmSync(work, { recursive: true })
  execFileSync('chown', ['-R', '0:0', cache])
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', cache])
}

/** CycloneDX: the packages as the lockfile has them, Node, and the Debian packages that files come from. */
function layBillOfMaterials() {
  const { version } = lockfile['packages/agent']
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: { type: 'container', name: 'livery', version, 'bom-ref': 'livery' } },
    components: [...places.map(npmComponent), nodeComponent(), ...debianComponents()],
  }
  write('usr/share/livery/livery.cdx.json', `${JSON.stringify(bill, undefined, 2)}\n`)
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

function debianComponents() {
  const names = new Set(['ca-certificates', ...systemFiles.map(owner)])
  return [...names].map(name => {
    const [, version] = execFileSync('dpkg-query', ['--show', name], { encoding: 'utf8' }).trim().split('\t')
    return { type: 'library', name, version, 'bom-ref': `debian-${name}`, purl: `pkg:deb/debian/${name}@${version}` }
  })
}

/** dpkg knows some files with the `/usr` of today's systems, and some without. */
function owner(file) {
  for (const path of [file, `/usr${file}`, file.replace(/^\/usr/, '')]) {
    const { status, stdout } = spawnSync('dpkg-query', ['--search', path], { encoding: 'utf8' })
    if (status === 0) return stdout.split(':')[0]
  }
  throw new Error(`rootfs: no Debian package has ${file}: lay out the image on Debian`)
}

function lay(from, to) {
  const target = makeFolder(to)
  copyFileSync(from, target)
  chmodSync(target, /usr\/bin\/|ld-linux/.test(to) ? 0o755 : 0o644)
}

function write(to, text, mode = 0o644) {
  writeFileSync(makeFolder(to), text, { mode })
}

function makeFolder(to) {
  const target = join(out, to)
  mkdirSync(dirname(target), { recursive: true, mode: 0o755 })
  return target
}
