// Lays out the root file system of the container image: `node deploy/image/rootfs.mjs --out DIR [--addon FILE]`. The Dockerfile runs
// it, and so does the test that starts what it has laid out. It needs the dependencies of the lockfile and Debian's ldd, setpriv, setcap
// and chroot, and makes files of the user that runs it: root, for the capabilities and for an image that its own user cannot change.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, realpathSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { NODE_OPTIONS } from '../../packages/agent/bin/node-options.js'
import {
  AGENT,
  billOfMaterials,
  build,
  CACHE,
  keepCompiledCode,
  lay,
  layPackages,
  write,
} from '../../scripts/program-files.mjs'

/** The folder of the packages in the image, under their names in node_modules. */
const PREFIX = 'usr/lib/livery'
/** The user of the image; no other image should have it, since processes of one user can end each other. */
const UID = 15_100
/** The capabilities for the sockets of workloads: `deploy/helm/livery/README.md` says why. They count only where the pod grants them. */
const CAPABILITIES = 'cap_chown,cap_dac_override+p'
/** From coreutils; a program's first line uses it to pass options to Node. */
const ENV = '/usr/bin/env'
const SETPRIV = '/usr/bin/setpriv'
/** From util-linux, for the volumes of pods. The copies have no set-user-ID bit. */
const MOUNT = ['/usr/bin/mount', '/usr/bin/umount']

/** Debian's files in the image, by their paths on this machine and there. */
const systemFiles = []

const { values: options } = parseArgs({ options: { out: { type: 'string' }, addon: { type: 'string' } } })
if (options.out === undefined) {
  console.error('rootfs: --out is missing: name an empty folder')
  process.exit(2)
}
const out = resolve(options.out)

await build()
const addon = layPackages(join(out, PREFIX), options.addon && resolve(options.addon))
layProgram()
laySystem()
layBillOfMaterials()
await layCompiledCode()

/** Node itself, the command `livery`, and the program that passes on the capabilities that the pod grants. */
function layProgram() {
  layFile(realpathSync(process.execPath), 'usr/bin/node')
  const start = `#!${ENV} -S /usr/bin/node ${NODE_OPTIONS.join(' ')}\n`
  writeFile('usr/bin/livery', `${start}import('/${PREFIX}/${AGENT}/bin/livery.js')\n`, 0o755)
  const programs = [ENV, SETPRIV, ...MOUNT]
  systemFiles.push(...programs, ...new Set([process.execPath, ...programs, addon].flatMap(libraries)))
  for (const file of systemFiles) layFile(file, file)
  // Kubernetes gives a user other than root no ambient capabilities: the file has to have them.
  execFileSync('setcap', [CAPABILITIES, join(out, 'usr/bin/setpriv')])
}

/** The shared libraries of a program, as its loader finds them. */
function libraries(file) {
  const listed = execFileSync('ldd', [file], { encoding: 'utf8' })
  return [...listed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path]) => path)
}

/** Users, names and the roots of public CAs, for the C library and Node. */
function laySystem() {
  writeFile('etc/passwd', `root:x:0:0:root:/:/sbin/nologin\nlivery:x:${UID}:${UID}:livery:/:/sbin/nologin\n`)
  writeFile('etc/group', `root:x:0:\nlivery:x:${UID}:\n`)
  writeFile('etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n')
  layFile('/etc/ssl/certs/ca-certificates.crt', 'etc/ssl/certs/ca-certificates.crt')
  // Mount points, which a read-only root has to contain.
  for (const folder of ['etc/livery', 'run/livery', 'var/run/secrets', 'proc', 'dev', 'sys', 'tmp'])
    mkdirSync(join(out, folder), { recursive: true })
}

/** The code that V8 compiles for a start: the image's user can only read it. The program starts once as it will in the image. */
async function layCompiledCode() {
  const cache = join(out, PREFIX, CACHE)
  const work = join(out, 'tmp/first-start')
  for (const folder of [join(cache, 'compiled'), work]) mkdirSync(folder, { recursive: true })
  execFileSync('chown', ['-R', `${UID}:${UID}`, cache, work])
  const command = ['/usr/sbin/chroot', `--userspec=${UID}:${UID}`, out, '/usr/bin/livery']
  await keepCompiledCode(command, { work, from: '/tmp/first-start', cwd: '/' })
  rmSync(work, { recursive: true })
  execFileSync('chown', ['-R', '0:0', cache])
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', cache])
}

/** Lists also the Debian packages of the files. */
function layBillOfMaterials() {
  writeFile('usr/share/livery/livery.cdx.json', billOfMaterials('container', debianComponents()))
}

function debianComponents() {
  const names = new Set(['ca-certificates', ...systemFiles.map(owner)])
  return [...names].map(name => {
    const [, version] = execFileSync('dpkg-query', ['--show', name], { encoding: 'utf8' }).trim().split('\t')
    return { type: 'library', name, version, 'bom-ref': `debian-${name}`, purl: `pkg:deb/debian/${name}@${version}` }
  })
}

/** dpkg knows some files under `/usr`, as on today's systems, and some without. */
function owner(file) {
  for (const path of [file, `/usr${file}`, file.replace(/^\/usr/, '')]) {
    const { status, stdout } = spawnSync('dpkg-query', ['--search', path], { encoding: 'utf8' })
    if (status === 0) return stdout.split(':')[0]
  }
  throw new Error(`rootfs: no Debian package has ${file}: lay out the image on Debian`)
}

/** Copies a file of Debian, by default to the same path. */
function layFile(from, to) {
  lay(from, join(out, to), /usr\/bin\/|ld-linux/.test(to) ? 0o755 : 0o644)
}

function writeFile(to, text, mode) {
  write(join(out, to), text, mode)
}
