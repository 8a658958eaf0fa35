/** One life of a plugin's thread, from its start until it ends, on its own or because it is stopped. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { systemErrorCode } from '@livery/core'
import type { ThreadMethods } from './messages.ts'
import { MAX_HEAP, type PluginRun, type PluginRunOptions } from './plugin-run.ts'
import { logPrinted } from './printed-lines.ts'
import { Peer } from './two-way-calls.ts'
import { toWire } from './wire-error.ts'

export class PluginThread implements PluginRun {
  readonly peer: Peer<ThreadMethods>
  readonly ended: Promise<string>
  readonly #worker: Worker

  constructor({ module, methods, log }: PluginRunOptions) {
    // The name of this file shows whether it runs from source; the bundle is a folder beside `plugin`.
    const entry = new URL(`../plugin/thread-main${extname(import.meta.url)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: MAX_HEAP }
    this.#worker = new Worker(entry, { workerData: module, resourceLimits, stdout: true, stderr: true })
    this.peer = new Peer(this.#worker, methods)
    this.ended = this.#untilEnd()
    for (const output of [this.#worker.stdout, this.#worker.stderr]) logPrinted(output, log)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }

  #untilEnd(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>()
    this.#worker.on('error', error => resolve(crashText(error)))
    this.#worker.on('exit', code => resolve(`ended its thread (exit code ${code})`))
    return promise
  }
}

function crashText(error: unknown): string {
  const { message } = toWire(error)
  const isMemory = systemErrorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY'
  return isMemory ? `used more than ${MAX_HEAP} MiB of memory` : `crashed: ${message}`
}
