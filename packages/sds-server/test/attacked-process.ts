/** The process of a server that a test attacks, measures and kills. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { AttackedOptions, AttackedOrder, AttackedReport } from './attacked-server.ts'

export class Attacked implements AsyncDisposable {
  readonly path: string
  readonly #child: ChildProcess

  private constructor(path: string, child: ChildProcess) {
    this.path = path
    this.#child = child
  }

  /** `flags`: of V8. */
  static async start(
    directory: string,
    limits: AttackedOptions['limits'],
    flags: readonly string[] = [],
  ): Promise<Attacked> {
    const path = join(directory, 'sds.sock')
    const options: AttackedOptions = { path, limits, padding: 50_000 }
    const child = fork(new URL('attacked-server.ts', import.meta.url), [JSON.stringify(options)], {
      execArgv: ['--conditions=@livery/source', '--max-semi-space-size=8', ...flags],
    })
    await once(child, 'message')
    return new Attacked(path, child)
  }

  /** Rejects when the process ends. */
  async ended(): Promise<never> {
    const [code, signal] = await once(this.#child, 'exit')
    throw new Error(`the server ended with ${code ?? signal}`)
  }

  async order(order: AttackedOrder): Promise<unknown> {
    this.#child.send(order)
    const [answer] = await once(this.#child, 'message')
    return answer
  }

  async report(): Promise<AttackedReport> {
    return (await this.order('report')) as AttackedReport
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}
