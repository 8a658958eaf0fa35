/** Bind mounts that can only be read, by util-linux: Node has no mount(2). */
import { execFile } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { promisify } from 'node:util'

export interface Mount {
  /** The mounted folder in its own file system. `//deleted` follows the path of one that was removed. */
  readonly root: string
  readonly options: ReadonlySet<string>
}

const READ_ONLY = ['ro', 'nosuid', 'nodev', 'noexec']
const TIMEOUT_MS = 10_000
const ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }
const run = promisify(execFile)

/** The topmost mount on `path`, which has no links in it (proc_pid_mountinfo(5)). */
export async function mountOn(path: string): Promise<Mount | undefined> {
  const text = await readFile('/proc/self/mountinfo', 'utf8')
  const mounts = text.split('\n').map(line => line.split(' '))
  const found = mounts.findLast(([, , , , point = '']) => withoutEscapes(point) === path)
  if (!found) return undefined
  const [, , , root = '', , options = ''] = found
  return { root: withoutEscapes(root), options: new Set(options.split(',')) }
}

/**
 * Mounts the folder `source` on the directory `target`, or completes what an earlier call began. Rejects if something
 * else is mounted there. Both paths are absolute, and only root and this user can change what they lead to.
 */
export async function bindReadOnly(source: string, target: string): Promise<void> {
  const before = await mountOn(target)
  if (!before) await util('mount', ['--bind', '--', source, target])
  if (!(await isSameFolder(source, target))) throw new Error(`something else is mounted on ${target}`)
  if (!isReadOnly(before)) await util('mount', ['-o', `remount,bind,${READ_ONLY.join()}`, '--', source, target])
  if (!isReadOnly(await mountOn(target))) throw new Error(`${target} is not mounted read-only`)
}

/** Removes the topmost mount on `target`. */
export async function unmount(target: string): Promise<void> {
  await util('umount', ['--', target])
}

/** No shell sees the arguments. */
async function util(program: 'mount' | 'umount', parameters: readonly string[]): Promise<void> {
  await run(program, parameters, { env: ENVIRONMENT, timeout: TIMEOUT_MS, maxBuffer: 65_536 })
}

function isReadOnly(mount: Mount | undefined): boolean {
  return mount !== undefined && READ_ONLY.every(option => mount.options.has(option))
}

async function isSameFolder(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([stat(one, { bigint: true }), stat(other, { bigint: true })])
  return a.dev === b.dev && a.ino === b.ino
}

/** Space, tab, newline and backslash are octal there. */
function withoutEscapes(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}
