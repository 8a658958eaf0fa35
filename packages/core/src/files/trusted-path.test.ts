/** Paths on a real file system, with real owners where the tests run as root. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  fstatSync,
  lchownSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { checkFile, checkFolder, makeFolder, type PathTrust, shareFolders, UntrustedPathError } from './trusted-path.ts'

const OTHER = 65_534
const needsRoot = process.geteuid?.() === 0 ? false : 'only root can give files away'

function makeBase(t: TestContext): string {
  t.after(() => shareFolders([]))
  return temporaryFolder(t)
}

function mkdir(path: string, mode = 0o755, owner = process.geteuid?.() ?? 0): string {
  mkdirSync(path)
  chmodSync(path, mode)
  if (owner !== process.geteuid?.()) chownSync(path, owner, owner)
  return path
}

function refusalOf(action: () => unknown): UntrustedPathError {
  try {
    action()
  } catch (error) {
    assert.ok(error instanceof UntrustedPathError, String(error))
    return error
  }
  return assert.fail('it was taken')
}

function checkAt(path: string, trust?: PathTrust): void {
  const file = openSync(path, 'r')
  try {
    checkFile(path, fstatSync(file), trust)
  } finally {
    closeSync(file)
  }
}

for (const mode of [0o777, 0o775, 0o757, 0o1777, 0o1770, 0o2777, 0o722])
  test(`an own folder of mode ${mode.toString(8)} is refused: others can put files there`, {
    skip: (mode & 0o002) === 0 && needsRoot,
  }, t => {
    const folder = mkdir(join(makeBase(t), 'run'), mode)
    const refused = refusalOf(() => checkFolder(folder))
    assert.equal(refused.component, folder)
    assert.ok(refused.message.includes(`${folder} (mode ${mode.toString(8).padStart(4, '0')}, owner`), refused.message)
    assert.match(refused.message, /can be written by others\. (Run: chmod go-w|Use a separate folder)/)
    assert.equal(refusalOf(() => makeFolder(folder, 0o750)).component, folder)
  })

for (const mode of [0o700, 0o755, 0o555, 0o1755])
  test(`an own folder of mode ${mode.toString(8)} is taken`, t => {
    checkFolder(mkdir(join(makeBase(t), 'run'), mode))
  })

test('a folder of another user is refused, whatever its mode', { skip: needsRoot }, t => {
  const base = makeBase(t)
  for (const mode of [0o700, 0o755, 0o777]) {
    const folder = mkdir(join(base, mode.toString(8)), mode, OTHER)
    const { message } = refusalOf(() => checkFolder(folder))
    assert.match(message, /owner 65534:65534\) belongs to uid 65534, and this process runs as 0\. Run: chown 0 /)
  }
})

test('every component counts, not the last one alone', { skip: needsRoot }, t => {
  const base = makeBase(t)
  const foreign = mkdir(join(base, 'foreign'), 0o755, OTHER)
  const open = mkdir(join(base, 'open'), 0o777)
  for (const component of [foreign, open]) {
    const deeper = mkdir(join(mkdir(join(component, 'a'), 0o700), 'b'), 0o700)
    assert.equal(refusalOf(() => checkFolder(deeper)).component, component)
    const made = join(component, 'a', 'b', 'c')
    assert.equal(refusalOf(() => makeFolder(made, 0o700)).component, component)
    assert.equal(statSync(made, { throwIfNoEntry: false }), undefined, 'nothing is made there')
  }
})

test('in a sticky folder, what belongs to root or to this user is taken, and nothing else', { skip: needsRoot }, t => {
  const sticky = mkdir(join(makeBase(t), 'tmp'), 0o1777)
  checkFolder(mkdir(join(sticky, 'own'), 0o700))
  const foreign = mkdir(join(sticky, 'foreign'), 0o755, OTHER)
  for (const owners of ['own', 'delegated'] as const)
    assert.match(refusalOf(() => checkFolder(foreign, { owners })).message, /was put there by another user/)
})

test('a sticky folder of another user is refused: its owner can replace what is in it', { skip: needsRoot }, t => {
  const sticky = mkdir(join(makeBase(t), 'tmp'), 0o1777, OTHER)
  const own = mkdir(join(sticky, 'own'), 0o700)
  assert.equal(refusalOf(() => checkFolder(own)).component, sticky)
})

test('links are followed, and the folders of link and target are both checked', { skip: needsRoot }, t => {
  const base = makeBase(t)
  const good = mkdir(join(base, 'good'))
  const open = mkdir(join(base, 'open'), 0o777)
  const sticky = mkdir(join(base, 'sticky'), 0o1777)
  mkdir(join(good, 'run'), 0o700)
  mkdir(join(open, 'run'), 0o700)
  const link = (target: string, path: string) => {
    symlinkSync(target, path)
    return path
  }
  checkFolder(link('good/run', join(base, 'relative')))
  checkFolder(link(join(good, 'run'), join(base, 'absolute')))
  checkFolder(link('../good/./run/..//run', join(good, 'dots')))
  assert.equal(refusalOf(() => checkFolder(link(join(good, 'run'), join(open, 'link')))).component, open)
  assert.equal(refusalOf(() => checkFolder(link(join(open, 'run'), join(base, 'to-open')))).component, open)
  const foreign = link(join(good, 'run'), join(sticky, 'link'))
  lchownSync(foreign, OTHER, OTHER)
  assert.equal(refusalOf(() => checkFolder(foreign)).component, foreign)
  assert.match(refusalOf(() => checkFolder(link('loop', join(base, 'loop')))).message, /more than 40 symbolic links/)
})

test('a path component that is not a folder is refused', t => {
  const base = makeBase(t)
  writeFileSync(join(base, 'file'), '')
  for (const path of [join(base, 'file'), join(base, 'file', 'deeper')])
    for (const look of [() => checkFolder(path), () => makeFolder(path, 0o700)])
      assert.match(refusalOf(look).message, /is not a directory\. Name another path/)
})

test('missing folders are created with the mode, whatever the umask, and no system error is hidden', t => {
  const base = makeBase(t)
  for (const umask of [0, 0o777]) {
    const before = process.umask(umask)
    const path = join(base, `${umask}`, 'a', 'b')
    try {
      makeFolder(path, 0o750)
    } finally {
      process.umask(before)
    }
    for (const made of [path, join(path, '..')]) assert.equal(statSync(made).mode & 0o7777, 0o750)
  }
  assert.throws(() => checkFolder(join(base, 'none')), { code: 'ENOENT' })
  assert.throws(() => makeFolder('/proc/none/run', 0o750), { code: 'ENOENT' })
})

test('a declared folder may be written by others, but not what is below it, nor where it counts as code', t => {
  const base = makeBase(t)
  const shared = mkdir(join(base, 'emptyDir'), 0o777)
  const deeper = join(shared, 'livery')
  const message = refusalOf(() => makeFolder(deeper, 0o750)).message
  assert.ok(message.includes(`add ${shared} to sharedFolders`), message)
  shareFolders([`${shared}/`])
  makeFolder(deeper, 0o750)
  checkFolder(shared)
  assert.equal(refusalOf(() => checkFolder(deeper, { shared: false })).component, shared)
  chmodSync(deeper, 0o777)
  assert.equal(refusalOf(() => checkFolder(deeper)).component, deeper)
})

test('in a declared folder, what another user has made is still refused', { skip: needsRoot }, t => {
  const shared = mkdir(join(makeBase(t), 'emptyDir'), 0o777)
  shareFolders([shared])
  const squatted = mkdir(join(shared, 'livery'), 0o777, OTHER)
  assert.equal(refusalOf(() => makeFolder(squatted, 0o750)).component, squatted)
})

test('a file is refused if others can write to it, and named with its mode', t => {
  const file = join(makeBase(t), 'token')
  writeFileSync(file, 'x')
  for (const mode of [0o666, 0o646, 0o602]) {
    chmodSync(file, mode)
    const { component, message } = refusalOf(() => checkAt(file))
    assert.equal(component, file)
    assert.match(message, /can be written by others\. Make sure of its content, then run "chmod go-w/)
  }
  chmodSync(file, 0o644)
  checkAt(file)
})

test("a file of another user is taken only where the operator's choice makes it good", { skip: needsRoot }, t => {
  const base = makeBase(t)
  const sticky = mkdir(join(base, 'sticky'), 0o1777)
  const home = mkdir(join(base, 'vault'), 0o755, OTHER)
  const [given, inHome, planted] = [join(base, 'token'), join(home, 'token'), join(sticky, 'token')]
  for (const file of [given, inHome, planted]) {
    writeFileSync(file, 'x')
    chownSync(file, OTHER, OTHER)
    assert.match(refusalOf(() => checkAt(file)).message, /belongs to uid 65534|put there by another user/)
  }
  checkAt(given, { owners: 'delegated' })
  checkAt(inHome, { owners: 'delegated' })
  assert.match(refusalOf(() => checkAt(planted, { owners: 'delegated' })).message, /put there by another user/)
  chmodSync(home, 0o777)
  assert.equal(refusalOf(() => checkAt(inHome, { owners: 'delegated' })).component, home)
})

test("a link in a user's folder leads to no file of anybody else", { skip: needsRoot }, t => {
  const base = makeBase(t)
  const [home, another] = [mkdir(join(base, 'home'), 0o755, OTHER), mkdir(join(base, 'another'), 0o755, OTHER - 1)]
  const own = join(home, 'own')
  const foreign = join(another, 'key')
  const ours = join(base, 'root-key')
  for (const [file, owner] of [
    [own, OTHER],
    [foreign, OTHER - 1],
    [ours, 0],
  ] as const) {
    writeFileSync(file, 'x', { mode: 0o600 })
    chownSync(file, owner, owner)
  }
  mkdir(join(home, 'folder'), 0o755, OTHER)
  symlinkSync(own, join(home, 'folder', 'link'))
  checkAt(join(home, 'folder', 'link'), { owners: 'delegated' })
  for (const target of [foreign, ours]) {
    const link = join(home, 'link')
    symlinkSync(target, link)
    const { component, message } = refusalOf(() => checkAt(link, { owners: 'delegated' }))
    assert.equal(component, target)
    assert.ok(message.includes(`does not belong to uid ${OTHER}, who may have made the link ${link} to it`), message)
    rmSync(link)
  }
  symlinkSync(another, join(home, 'through'))
  assert.equal(refusalOf(() => checkAt(join(home, 'through', 'key'), { owners: 'delegated' })).component, foreign)
  symlinkSync(foreign, join(base, 'by-root'))
  checkAt(join(base, 'by-root'), { owners: 'delegated' })
})

test('a hard link that somebody else could have made is refused, to whomever its file belongs', {
  skip: needsRoot,
}, t => {
  const base = makeBase(t)
  const [home, sticky] = [mkdir(join(base, 'home'), 0o755, OTHER), mkdir(join(base, 'sticky'), 0o1777)]
  const ours = mkdir(join(base, 'ours'))
  for (const owner of [0, OTHER - 1, OTHER]) {
    const key = join(ours, `${owner}`)
    writeFileSync(key, 'x', { mode: 0o600 })
    chownSync(key, owner, owner)
    for (const folder of [ours, home, sticky]) linkSync(key, join(folder, `linked-${owner}`))
  }
  for (const owner of [0, OTHER - 1, OTHER]) checkAt(join(ours, `linked-${owner}`), { owners: 'delegated' })
  checkAt(join(ours, 'linked-0'))
  checkAt(join(home, `linked-${OTHER}`), { owners: 'delegated' })
  for (const owner of [0, OTHER - 1]) {
    const path = join(home, `linked-${owner}`)
    const { component, message } = refusalOf(() => checkAt(path, { owners: 'delegated' }))
    assert.equal(component, path)
    assert.match(message, /has 4 hard links, and uid 65534 could have made this one\. Put a copy there/)
  }
  assert.match(refusalOf(() => checkAt(join(sticky, 'linked-0'))).message, /has 4 hard links, .* everybody/)
  writeFileSync(join(home, 'alone'), 'x')
  checkAt(join(home, 'alone'), { owners: 'delegated' })
})

test('the check is on the file that was opened: one that was put there since is refused', t => {
  const base = makeBase(t)
  const [file, other] = [join(base, 'token'), join(base, 'other')]
  for (const path of [file, other]) writeFileSync(path, 'x')
  const opened = openSync(file, 'r')
  renameSync(other, file)
  assert.match(refusalOf(() => checkFile(file, fstatSync(opened))).message, /was replaced while it was opened/)
  closeSync(opened)
})

const asUser = (id: number) => [`--reuid=${id}`, `--regid=${id}`, '--clear-groups', process.execPath]
const cannotBeNobody =
  needsRoot || (spawnSync('setpriv', [...asUser(OTHER), '--version']).status === 0 ? false : 'needs setpriv')
const MODULE = new URL('./trusted-path.ts', import.meta.url).href

/** The result of the check in a process of another user. */
function makeAs(id: number, path: string): string {
  const script = `import { makeFolder } from ${JSON.stringify(MODULE)}
    try { makeFolder(${JSON.stringify(path)}, 0o750); console.log('taken') } catch (error) { console.log(error.message) }`
  const { stdout, stderr } = spawnSync('setpriv', [...asUser(id), '--input-type=module', '-e', script])
  return stdout.toString() || stderr.toString()
}

test('an agent that is not root takes folders of root and its own, and no others', { skip: cannotBeNobody }, t => {
  const base = makeBase(t)
  chmodSync(base, 0o755)
  mkdir(join(base, 'own'), 0o755, OTHER)
  mkdir(join(base, 'third'), 0o755, 12_345)
  mkdir(join(base, 'group'), 0o775, OTHER)
  mkdir(join(base, 'emptyDir'), 0o777)
  assert.equal(makeAs(OTHER, join(base, 'own', 'run')), 'taken\n')
  assert.match(makeAs(OTHER, join(base, 'third')), /belongs to uid 12345, and this process runs as 65534/)
  assert.match(makeAs(OTHER, join(base, 'group')), /can be written by others/, 'group 65534 has other members')
  assert.match(makeAs(OTHER, join(base, 'emptyDir', 'run')), /sharedFolders/)
})

/** uid 1 with its own group 1, as Debian and Ubuntu have it. */
const hasPrivateGroup =
  /^daemon:[^:]*:1:1:/m.test(readFileSync('/etc/passwd', 'utf8')) &&
  /^daemon:[^:]*:1:$/m.test(readFileSync('/etc/group', 'utf8'))

test("a folder that the user's private group can write to is the user's own", {
  skip: cannotBeNobody || (!hasPrivateGroup && 'needs the user daemon with its group'),
}, t => {
  const base = makeBase(t)
  chmodSync(base, 0o755)
  const folder = mkdir(join(base, 'checkout'), 0o775, 1)
  assert.equal(makeAs(1, join(folder, 'run')), 'taken\n')
  chownSync(folder, 1, 0)
  assert.match(makeAs(1, folder), /can be written by others/)
})

const READ_ONLY_MOUNT = `
set -e
mount -t tmpfs none "$1"
mkdir -m 0777 "$1/open" "$1/open/run"
mount -o remount,ro,bind "$1"
"$2" --input-type=module -e "$3"
`
test('on a mount that nobody here can write to, as of a ConfigMap, modes do not count', t => {
  const base = makeBase(t)
  const path = join(base, 'open', 'run')
  const script = `import { checkFolder } from ${JSON.stringify(MODULE)}; checkFolder(${JSON.stringify(path)}); console.log('taken')`
  const args = ['--mount', '--map-root-user', 'sh', '-c', READ_ONLY_MOUNT, 'sh', base, process.execPath, script]
  const { stdout, stderr } = spawnSync('unshare', args, { encoding: 'utf8' })
  if (/unshare|mount:/.test(stderr)) return t.skip(`no private mount can be made here: ${stderr.trim()}`)
  assert.equal(stdout, 'taken\n', stderr)
})
