/** The folder in which a benchmark starts its processes and keeps its files: closing it, or Ctrl-C, leaves nothing of either. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { TemporaryFolder } from '@livery/test-support'
import { endedChildrenCpuSeconds, processTree } from './proc.ts'

export interface Running {
  readonly pid: number
  /** The whole output on stdout so far. */
  output(): string
}

interface Ended {
  readonly stdout: string
  /** User and system time of the process and the children that it waited for, in steps of 10 ms. */
  readonly cpuSeconds: number
}

interface StartOptions {
  /** Default: the workdir's folder. */
  readonly cwd?: string
  /** The interval of checks for readiness, milliseconds. Default: 100. */
  readonly pollMs?: number
}

interface Child {
  readonly process: ChildProcess
  /** Resolves when its pipes are closed too: no more output comes. */
  readonly closed: Promise<void>
  stdout: string
  /** The end of its stderr. */
  stderr: string
}

/** Slow machines need a while to fetch ten thousand certificates. */
const READY_WITHIN_MS = 120_000
const END_WITHIN_MS = 2_000
/** The characters of stderr that are kept for messages. */
const KEPT_CHARACTERS = 2_000

const open = new Set<Workdir>()

export class Workdir implements AsyncDisposable {
  readonly #folder = new TemporaryFolder()
  readonly #children = new Set<Child>()

  constructor() {
    open.add(this)
  }

  get folder(): string {
    return this.#folder.path
  }

  /**
   * Starts a server and waits until `ready` has an answer, which it resolves with. Rejects with the end of its stderr
   * when it ends before that, or takes longer than two minutes.
   */
  async start<T>(
    command: string,
    args: readonly string[],
    ready: (server: Running) => Promise<T | undefined> | T | undefined,
    options: StartOptions = {},
  ): Promise<{ readonly server: Running; readonly answer: T }> {
    const child = this.#spawn(command, args, options)
    const server: Running = { pid: await pidOf(child.process), output: () => child.stdout }
    const deadline = performance.now() + READY_WITHIN_MS
    for (;;) {
      if (hasEnded(child.process)) throw new Error(`${command} ended before it was ready: ${child.stderr.trim()}`)
      const answer = await ready(server)
      if (answer !== undefined) return { server, answer }
      if (performance.now() > deadline)
        throw new Error(`${command} was not ready within ${READY_WITHIN_MS / 1000} s: ${child.stderr.trim()}`)
      await sleep(options.pollMs ?? 100)
    }
  }

  /** Runs a program to its end. Rejects with its output on failure. Run one at a time, or `cpuSeconds` covers both. */
  async run(command: string, args: readonly string[], options: StartOptions = {}): Promise<Ended> {
    const before = await endedChildrenCpuSeconds()
    const child = this.#spawn(command, args, options)
    await pidOf(child.process)
    await child.closed
    this.#children.delete(child)
    const { exitCode, signalCode } = child.process
    if (exitCode !== 0) {
      const how = signalCode ?? `exit code ${exitCode}`
      throw new Error(`${command} ${args.join(' ')} failed (${how}): ${child.stderr}${child.stdout}`.trim())
    }
    return { stdout: child.stdout, cpuSeconds: (await endedChildrenCpuSeconds()) - before }
  }

  /** Ends one server, and what it started, and waits for it. */
  async stop({ pid }: Running): Promise<void> {
    const child = [...this.#children].find(one => one.process.pid === pid)
    if (child) await this.#end(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children].map(child => this.#end(child)))
    this.destroy()
  }

  /** Closes at once, for the end of this process. */
  destroy(): void {
    for (const child of this.#children) killAll(treeOf(child.process))
    this.#folder[Symbol.dispose]()
    open.delete(this)
  }

  #spawn(command: string, args: readonly string[], { cwd = this.folder }: StartOptions): Child {
    const started = spawn(command, args, { cwd, env: environment(), stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = new Promise<void>(resolve => started.once('close', () => resolve()))
    const child: Child = { process: started, closed, stdout: '', stderr: '' }
    started.stdout.setEncoding('utf8').on('data', text => {
      child.stdout += text
    })
    started.stderr.setEncoding('utf8').on('data', text => {
      child.stderr = (child.stderr + text).slice(-KEPT_CHARACTERS)
    })
    this.#children.add(child)
    return child
  }

  async #end(child: Child): Promise<void> {
    const tree = treeOf(child.process)
    if (!hasEnded(child.process)) child.process.kill('SIGTERM')
    await Promise.race([child.closed, sleep(END_WITHIN_MS, undefined, { ref: false })])
    killAll(tree)
    await child.closed
    this.#children.delete(child)
  }
}

/** Cleans up every workdir whatever ends this process. */
export function cleanUpOnExit(): void {
  process.on('exit', () => {
    for (const workdir of open) workdir.destroy()
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => process.exit(128 + constants.signals[signal]))
}

/** Passes only what programs need: CA_ADDR would configure the agent, GODEBUG and NODE_OPTIONS change the figures. */
function environment(): NodeJS.ProcessEnv {
  const { HOME, PATH, TMPDIR, CARGO_HOME, CARGO_TARGET_DIR, RUSTUP_HOME } = process.env
  return {
    HOME,
    TMPDIR,
    CARGO_HOME,
    CARGO_TARGET_DIR,
    RUSTUP_HOME,
    PATH: `${dirname(process.execPath)}:${PATH}`,
    // The value of packages/agent/bin/livery.js; no other measured program uses glibc's malloc.
    MALLOC_ARENA_MAX: '2',
  }
}

/** A killed program leaves behind the children that it started in other process groups. */
function treeOf(child: ChildProcess): number[] {
  return child.pid === undefined || hasEnded(child) ? [] : processTree(child.pid)
}

function killAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process has ended in the meantime.
    }
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}

async function pidOf(child: ChildProcess): Promise<number> {
  if (child.pid !== undefined) return child.pid
  const [error] = await once(child, 'error')
  throw error
}
