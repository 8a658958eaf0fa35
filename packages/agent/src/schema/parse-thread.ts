/** The main module of the thread of `parse-off-loop.ts`: parses one document, posts it, and ends. */
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigError } from './config-error.ts'
import { parseConfigDocument } from './document.ts'
import type { ParseRequest, ParseResult } from './parse-off-loop.ts'

if (!parentPort) throw new TypeError('This file is the main of a thread')
const { text, file }: ParseRequest = workerData
parentPort.postMessage(parse())

function parse(): ParseResult {
  try {
    return { root: parseConfigDocument(text, file) }
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems }
    throw error
  }
}
