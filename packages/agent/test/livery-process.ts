/** The program as its users start it: a child process, its output as it comes, its exit code. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Stream } from 'node:stream'
import { fileURLToPath } from 'node:url'

const LIVERY = fileURLToPath(new URL('../bin/livery.js', import.meta.url))

export interface ProcessOptions {
  readonly cwd: string
  /** Beside PATH; nothing of the test's own environment. */
  readonly env?: Readonly<Record<string, string>>
  /** The user and group to run as; only root can choose. Default: that of the test. */
  readonly uid?: number
  /** A command that runs the one behind it, such as setpriv with its options. */
  readonly launcher?: readonly string[]
  /** In the place of a pipe that is read. */
  readonly stderr?: number | Stream
}

/** How a process has ended. */
interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A `livery` command that keeps running; killed when disposed. */
export class LiveryProcess implements AsyncDisposable {
  readonly child: ChildProcess
  readonly ended: Promise<Ending>
  stdout = ''
  stderr = ''
  readonly #waiting = new Set<() => void>()

  constructor(args: readonly string[], { cwd, env, uid, launcher = [], stderr }: ProcessOptions) {
    const [command = '', ...words] = [...launcher, process.execPath, LIVERY, ...args]
    this.child = spawn(command, words, {
      cwd,
      ...(uid !== undefined && { uid, gid: uid }),
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'pipe', stderr ?? 'pipe'],
    })
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
      for (const look of this.#waiting) look()
    })
    this.ended = once(this.child, 'close').then(([code, signal]) => ({ code, signal }))
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  /** The first line on standard error that matches, come or to come; rejects if the process ends before. */
  async line(pattern: RegExp): Promise<string> {
    const [first = ''] = await this.lines(pattern, 1)
    return first
  }

  /** The lines on standard error that match, as soon as there are so many; rejects if the process ends before. */
  lines(pattern: RegExp, count: number): Promise<readonly string[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
    const look = (): void => {
      const found = this.stderr.split('\n').filter(line => pattern.test(line))
      if (found.length >= count) resolve(found)
    }
    this.#waiting.add(look)
    look()
    void this.ended.then(({ code }) => reject(new Error(`exit ${code} before ${pattern}:\n${this.stderr}`)))
    return promise.finally(() => this.#waiting.delete(look))
  }

  /** The address of the admin endpoint, from the start line. */
  async admin(): Promise<string> {
    const { admin }: { readonly admin: string } = JSON.parse(await this.line(/"msg":"livery .* serves/))
    return admin
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL')
    await this.ended
  }
}

/** Runs a command to its end. */
export async function livery(
  args: readonly string[],
  options: ProcessOptions,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const run = new LiveryProcess(args, options)
  const { code } = await run.ended
  return { code, stdout: run.stdout, stderr: run.stderr }
}
