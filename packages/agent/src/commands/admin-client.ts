/** Asks the admin endpoint of the agent that runs on this machine. */
import { type IncomingMessage, request } from 'node:http'
import { resolve } from 'node:path'
import { hideUserinfo, scrub, systemErrorCode } from '@livery/core'
import type { ConfigSources } from '../config/layers.ts'
import { configFile } from '../config/layers.ts'
import { loadAdminAddress } from '../config/load.ts'
import { formatListenAddress, type ListenAddress, parseListenAddress } from '../schema/values.ts'
import { UsageError } from './exit-code.ts'

const DEFAULT_ADDRESS: ListenAddress = { host: '127.0.0.1', port: 15_100 }
const TIMEOUT_MS = 10_000
/** Characters of an answer that is not a result that are shown: the agent's own are one line. */
const MAX_LINE = 600
/** The answer of an agent with 100,000 identities is shorter. */
const MAX_ANSWER = 400 * 1024 * 1024

export interface AdminAnswer {
  readonly status: number
  readonly body: string
}

/** Rejects with an `Error` that says where nobody answered, or with a `ConfigError` of the file that names the address. */
export async function askAdmin(path: string, sources: ConfigSources): Promise<AdminAnswer> {
  const address = await adminAddress(sources)
  try {
    const response = await get(address, path)
    const { 'content-type': type = '' } = response.headers
    if (type.startsWith('text/html')) {
      response.destroy()
      throw new Error(`another program answers there (HTTP ${response.statusCode}, ${firstLine(type)})`)
    }
    return { status: response.statusCode ?? 0, body: await bodyOf(response) }
  } catch (cause) {
    const reason = nobodyListens(cause) ? 'nothing listens there' : describe(cause)
    throw new Error(
      `Cannot ask the agent at ${formatListenAddress(address)}: ${reason}. Start it with "livery run", or name its address with --admin.`,
      { cause },
    )
  }
}

function get(address: ListenAddress, path: string): Promise<IncomingMessage> {
  const { promise, resolve: answered, reject } = Promise.withResolvers<IncomingMessage>()
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const target = 'path' in address ? { socketPath: address.path, host: 'localhost' } : address
  const call = request({ ...target, path, agent: false, signal }, answered)
  call.on('error', error => reject(signal.aborted ? signal.reason : error)).end()
  return promise
}

/** Another program may answer there, and never end. */
async function bodyOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of response.setEncoding('utf8')) {
    text += part
    if (text.length > MAX_ANSWER) throw new Error(`its answer is longer than ${MAX_ANSWER} characters`)
  }
  return text
}

/** The first line of an answer, as a terminal can print it. */
export function firstLine(body: string): string {
  return scrub(body.trimStart().split('\n', 1)[0] ?? '', { maxLength: MAX_LINE })
}

/** JSON as a terminal can print it: in it an escape means the same as the character. */
export function printableJson(value: unknown): string {
  const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, undefined, 2).replace(/[^\n\x20-\x7e]/g, escaped)
}

/** `--admin`, else that of the configuration, else the default. */
async function adminAddress(sources: ConfigSources): Promise<ListenAddress> {
  if (sources.admin !== undefined) {
    const given = parseListenAddress(sources.admin)
    if (given && 'path' in given) return { path: resolve(sources.workingDirectory, given.path) }
    if (given) return given
    throw new UsageError(
      `--admin ${JSON.stringify(hideUserinfo(sources.admin))} is not an address. Write host:port, such as 127.0.0.1:15100.`,
    )
  }
  if (configFile(sources) === undefined) return DEFAULT_ADDRESS
  const address = await loadAdminAddress(sources)
  return address.host === '0.0.0.0' || address.host === '::' ? { ...address, host: '127.0.0.1' } : address
}

function nobodyListens(error: unknown): boolean {
  const code = systemErrorCode(error)
  return code === 'ECONNREFUSED' || code === 'ENOENT'
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.name === 'TimeoutError' ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message
}
