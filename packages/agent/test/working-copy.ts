/** A copy of the repository with its dependencies and nothing built: what the commands of the README start from. */
import { type ChildProcess, type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Why no copy can be made here, or `false`. */
export const noCopy: string | false =
  process.platform === 'linux'
    ? false
    : 'the copy needs hard links of directories by cp and processes from /proc: Linux only'

export interface CopyOptions {
  /** Default: true. */
  readonly dependencies?: boolean
}

export class WorkingCopy implements Disposable {
  /** Inside `.cache`, since hard links stay on one file system. */
  readonly path: string

  constructor({ dependencies = true }: CopyOptions = {}) {
    const cache = join(ROOT, '.cache')
    mkdirSync(cache, { recursive: true })
    this.path = mkdtempSync(join(cache, 'copy-'))
    const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT })
    const present = files
      .toString()
      .split('\0')
      .filter(file => file !== '' && existsSync(join(ROOT, file)))
    execFileSync('cp', ['--parents', '-t', this.path, ...present], { cwd: ROOT })
    if (!dependencies) return
    for (const folder of [
      '.',
      'benchmarks',
      ...readdirSync(join(ROOT, 'packages')).map(name => join('packages', name)),
    ]) {
      const modules = join(ROOT, folder, 'node_modules')
      if (existsSync(modules)) execFileSync('cp', ['-al', modules, join(this.path, folder)])
    }
  }

  /** Starts a command in a process group of its own, as a terminal does. */
  start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Command {
    return new Command(spawn(command, args, { cwd: this.path, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true }))
  }

  /** Runs a command to its end. */
  async run(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Finished> {
    await using running = this.start(command, args, env)
    const { code } = await running.ended
    return { code, output: running.output }
  }

  /** Programs that run in the copy, by their process id. */
  processes(): readonly number[] {
    return readdirSync('/proc')
      .filter(name => /^\d+$/.test(name) && workingDirectory(name).startsWith(this.path))
      .map(Number)
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** A command that runs; its whole group is killed when it is disposed. */
export class Command implements AsyncDisposable {
  /** Standard output and error. */
  output = ''
  /** When all who hold its output have ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly #child: ChildProcess
  readonly #looks = new Set<() => void>()

  constructor(child: ChildProcessByStdio<null, Readable, Readable>) {
    this.#child = child
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text
        for (const look of this.#looks) look()
      })
    this.ended = once(child, 'close').then(([code, signal]) => ({ code, signal }))
  }

  /** Resolves when the output matches; rejects if the command ends before. */
  async line(pattern: RegExp): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = (): void => {
      if (pattern.test(this.output)) resolve()
    }
    this.#looks.add(look)
    look()
    void this.ended.then(({ code }) => reject(new Error(`exit ${code} before ${pattern}:\n${this.output}`)))
    await promise.finally(() => this.#looks.delete(look))
  }

  killGroup(signal: NodeJS.Signals): void {
    if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.killGroup('SIGKILL')
    await this.ended
  }
}

export interface Finished {
  readonly code: number | null
  /** Standard output and error. */
  readonly output: string
}

/** The environment of a user's shell: nothing of nx, npm or the test runner that started this process. */
export function shellEnvironment(path: string = searchPath().join(':')): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(NX_|npm_|NODE_|LIVERY_)/i.test(name))
  return { ...Object.fromEntries(own), PATH: path, NX_DAEMON: 'false' }
}

/** PATH without the folders that have cargo; `undefined` if npm is in one of them. */
export function pathWithoutCargo(): string | undefined {
  const folders = searchPath().filter(folder => !existsSync(join(folder, 'cargo')))
  return folders.some(folder => existsSync(join(folder, 'npm'))) ? folders.join(':') : undefined
}

export function hasCargo(): boolean {
  return searchPath().some(folder => existsSync(join(folder, 'cargo')))
}

function searchPath(): readonly string[] {
  return (process.env['PATH'] ?? '').split(':').filter(folder => !folder.includes('node_modules'))
}

function workingDirectory(pid: string): string {
  try {
    return readlinkSync(join('/proc', pid, 'cwd'))
  } catch {
    // It has ended, or is not ours.
    return ''
  }
}
