/** Programs of others that speak the SPIFFE Workload API, built from their Go modules: one with go-spiffe, and spiffe-helper. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type TestEnd, temporaryFolder } from '@livery/test-support'

const MODULE = join(import.meta.dirname, 'workload-programs')
const HELPER = 'github.com/spiffe/spiffe-helper/cmd/spiffe-helper'
/** Less than a test file has. A cold build takes minutes; what it has compiled by then is there the next time. */
const BUILD_MS = process.env['LIVERY_SLOW'] ? 600_000 : 45_000

interface WorkloadPrograms {
  /** `workload-programs/main.go` */
  readonly workload: string
  readonly helper: string
}

/**
 * Builds them once for a test file, into a temporary folder, or says why that cannot be done.
 * `LIVERY_WORKLOAD_PROGRAMS` names a folder with both, built before.
 */
export async function buildPrograms(t: TestEnd): Promise<WorkloadPrograms | string> {
  const built = process.env['LIVERY_WORKLOAD_PROGRAMS']
  if (built) return programsIn(built)
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '-p=1 -mod=readonly', GOWORK: 'off' }
  try {
    await promisify(execFile)('go', ['version'], { env })
  } catch {
    return 'go is not installed'
  }
  try {
    await promisify(execFile)('go', ['list', '-deps', '.', HELPER], { cwd: MODULE, env, maxBuffer: 2 ** 24 })
  } catch {
    return 'the Go modules are not there: run "go mod download" in packages/agent/test/workload-programs'
  }
  const folder = temporaryFolder(t)
  try {
    const options = { cwd: MODULE, env, timeout: BUILD_MS }
    await promisify(execFile)('go', ['build', '-o', `${folder}/`, '.', HELPER], options)
  } catch (error) {
    if (error instanceof Error && 'killed' in error && error.killed)
      return `the Go programs are not built within ${BUILD_MS / 1_000} s: run it again, or with LIVERY_SLOW=1`
    throw error
  }
  return programsIn(folder)
}

function programsIn(folder: string): WorkloadPrograms {
  return { workload: join(folder, 'workloadprograms'), helper: join(folder, 'spiffe-helper') }
}

/** A program that prints a JSON object a line; killed when disposed. */
export class WorkloadProcess<Event> implements AsyncDisposable {
  readonly events: Event[] = []
  stderr = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #wake: () => void = () => {}
  #rest = ''

  /** `socket`: that of the Workload API. */
  constructor(program: string, args: readonly string[], socket: string) {
    const env = { PATH: process.env['PATH'], SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` }
    this.#child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#ended = once(this.#child, 'close').finally(() => this.#wake())
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#onText(text))
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
  }

  /** The first event that matches, printed or to be printed; rejects if the process ends before. */
  async event(matches: (event: Event) => boolean = () => true): Promise<Event> {
    for (;;) {
      const found = this.events.find(matches)
      if (found) return found
      if (this.#child.exitCode !== null) throw new Error(`the program has ended: ${this.stderr}`)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  /** The next event after a line on its standard input. */
  async ask(): Promise<Event> {
    const before = this.events.length
    this.#child.stdin?.write('\n')
    return await this.event(event => this.events.indexOf(event) >= before)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill()
    await this.#ended
  }

  #onText(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.events.push(JSON.parse(line))
    this.#wake()
  }
}
