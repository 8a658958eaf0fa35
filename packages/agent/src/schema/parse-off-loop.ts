/** Parses a long configuration file in a thread, bounded in time and memory: it costs the event loop only the result. */

import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { systemErrorCode } from '@livery/core/plugin'
import { ConfigError, type Problem } from './config-error.ts'
import type { ConfigNode } from './config-tree.ts'

/** The task of the thread. */
export interface ParseRequest {
  readonly text: string
  readonly file: string
}

/** The answer of the thread. */
export type ParseResult = { readonly root: ConfigNode } | { readonly problems: readonly Problem[] }

/** The longest file allowed takes a third of it on a slow machine. */
const DEADLINE_MS = 30_000
/** MiB. Enough for the longest file of identities that is allowed. */
const MAX_HEAP = 512

/** As `parseConfigDocument`, but asynchronous; it also rejects with a {@link ConfigError} for a text that takes too much time or memory. */
export async function parseOffLoop(text: string, file: string, signal?: AbortSignal): Promise<ConfigNode> {
  // The name of this file shows whether it runs from source; the bundle is a folder beside `schema`.
  const entry = new URL(`../schema/parse-thread${extname(import.meta.url)}`, import.meta.url)
  const workerData: ParseRequest = { text, file }
  const worker = new Worker(entry, { workerData, env: {}, resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP } })
  const deadline = AbortSignal.timeout(DEADLINE_MS)
  try {
    const [result]: ParseResult[] = await once(worker, 'message', {
      signal: signal ? AbortSignal.any([deadline, signal]) : deadline,
    })
    if (!result) throw new TypeError('the thread posted nothing')
    if ('problems' in result) throw new ConfigError(result.problems)
    return result.root
  } catch (error) {
    const reason = deadline.aborted ? `takes longer than ${DEADLINE_MS / 1000} s to parse` : memoryFault(error)
    if (reason === undefined) throw error
    const origin = { kind: 'file', file } as const
    const remedy = 'Use a range for many identities'
    throw new ConfigError([{ origin, path: '', reason: `the file ${reason}`, remedy }])
  } finally {
    void worker.terminate()
  }
}

function memoryFault(error: unknown): string | undefined {
  const isMemory = systemErrorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY'
  return isMemory ? `takes more than ${MAX_HEAP} MiB of memory to parse` : undefined
}
