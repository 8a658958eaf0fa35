/** A command as a user types it: its output as it comes, its end, and the signals that a terminal sends to its group. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** A command that runs; its whole group is killed when it is disposed. */
export class Command implements AsyncDisposable {
  /** Standard output and error. */
  output = ''
  /** When all who hold its output have ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly #child: ChildProcess
  readonly #looks = new Set<() => void>()

  constructor(
    command: string,
    args: readonly string[],
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly uid?: number | undefined },
  ) {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
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

  get pid(): number | undefined {
    return this.#child.pid
  }

  killGroup(signal: NodeJS.Signals): void {
    if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal)
  }

  /** Resolves at its end with the exit code. */
  async code(): Promise<number | null> {
    const { code } = await this.ended
    return code
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.killGroup('SIGKILL')
    await this.ended
  }
}

/** The environment of a user's shell: nothing of nx, npm or the test runner that started this process. */
export function shellEnvironment(path: string = searchPath().join(':')): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(NX_|LIVERY_|NODE_TEST_|npm_(?!config_)|npm_config_local_prefix)/.test(name),
  )
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
