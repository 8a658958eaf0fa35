/** The container image without a container engine: its root file system is laid out, mounted read-only, and run as its user. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, globSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TemporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { inGroup } from './launchers.ts'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const DOCKERFILE = readFileSync(join(repository, 'Dockerfile'), 'utf8')

/** A folder of this machine at a path of the container, as a volume of a pod. */
export interface Volume {
  readonly from: string
  readonly to: string
  readonly isWritable?: boolean
}

interface Container {
  readonly command: readonly string[]
  /** Granted by the pod, such as `CHOWN`. Default: none. */
  readonly capabilities?: readonly string[]
  readonly volumes: readonly Volume[]
  readonly environment?: Readonly<Record<string, string>>
  /** The control group of its pod, which then has `hostPID`. Default: that of the test, and processes of its own. */
  readonly group?: string
}

/** Why no image can be laid out and run here, or `false`. */
export const noImage = missing()

function missing(): string | false {
  if (process.platform !== 'linux' || process.geteuid?.() !== 0)
    return 'needs Linux and root, to mount and to be another user'
  if (!existsSync('/etc/debian_version')) return 'needs Debian: the image has its C library'
  if (globSync('packages/native-keygen/*.node', { cwd: repository }).length === 0) return 'no addon is built here'
  const tools = ['unshare', 'setpriv', 'chroot', 'mount', 'setcap', 'getcap', 'ldd', 'dpkg-query']
  const absent = tools.filter(tool => spawnSync(tool, ['--version']).error !== undefined)
  if (absent.length > 0) return `no ${absent.join(' and ')} on PATH`
  const { status } = spawnSync('unshare', ['--mount', '--pid', '--fork', 'true'])
  return status === 0 ? false : 'no mount namespace can be made here'
}

export class ImageRoot implements Disposable {
  readonly #folder = new TemporaryFolder()
  /** A folder for the test's own files, which every user may read. */
  readonly folder = this.#folder.path
  readonly path = join(this.folder, 'rootfs')
  readonly uid = /^USER (\d+):\1$/m.exec(DOCKERFILE)?.[1] ?? ''

  constructor() {
    chmodSync(this.folder, 0o755)
  }

  /** By the script that the Dockerfile runs. */
  async lay(): Promise<void> {
    const [, script = ''] = /^RUN \S+node (\S+) --out/m.exec(DOCKERFILE) ?? []
    await using laying = new Command(process.execPath, [join(repository, script), '--out', this.path], {
      cwd: repository,
      env: shellEnvironment(),
    })
    assert.equal(await laying.code(), 0, laying.output)
  }

  /** Runs a command as a container runtime does: `/` read-only, the user of the image, no new privileges. */
  run({ command, capabilities = [], volumes, environment = {}, group }: Container): Command {
    const granted = ['-all', ...capabilities.map(name => `+${name.toLowerCase()}`)].join()
    const user = [`--reuid=${this.uid}`, `--regid=${this.uid}`, '--clear-groups', '--no-new-privs']
    const sets = [`--inh-caps=${granted}`, `--ambient-caps=${granted}`, `--bounding-set=${granted}`]
    const variables = [...DOCKERFILE.matchAll(/^ENV (.*)$/gm)].flatMap(([, line = '']) => line.split(' '))
    const own = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
    const inside = ['chroot', this.path, '/usr/bin/setpriv', ...user, ...sets, ...command]
    const script = `${this.#mounts(volumes)} exec "$@"`
    // chroot is looked for in the PATH, too.
    const clean = ['env', '-i', ...variables, ...own, 'PATH=/usr/sbin:/usr/bin:/bin']
    const namespaces = ['--mount', ...(group === undefined ? ['--pid'] : []), '--fork', '--kill-child']
    const inNamespaces = ['unshare', ...namespaces, 'sh', '-e', '-c', script, 'sh', ...clean, ...inside]
    const [first = '', ...rest] = [...(group === undefined ? [] : inGroup(group)), ...inNamespaces]
    return new Command(first, rest, { cwd: '/', env: shellEnvironment() })
  }

  async outputOf(container: Container): Promise<string> {
    await using running = this.run(container)
    await running.ended
    return running.output
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]()
  }

  #mounts(volumes: readonly Volume[]): string {
    const inRoot = volumes.map(volume => ({ ...volume, target: join(this.path, volume.to) }))
    // A runtime makes them, above the image, which is not written to.
    for (const { target } of inRoot) mkdirSync(target, { recursive: true })
    const lines = inRoot.flatMap(({ from, target, isWritable }) => [
      `mount --bind '${from}' '${target}'`,
      ...(isWritable ? [] : [`mount -o remount,bind,ro '${target}'`]),
    ])
    const root = [`mount --bind '${this.path}' '${this.path}'`, `mount -o remount,bind,ro '${this.path}'`]
    return `${[...root, ...lines, `mount -t proc proc '${this.path}/proc'`].join('\n')}\n`
  }
}
