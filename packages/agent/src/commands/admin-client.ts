/** Asks the admin endpoint of the agent that runs on this machine. */
import { type IncomingMessage, request } from 'node:http'
import { resolve } from 'node:path'
import { boundInterimAnswers } from '@livery/ca-plugins/interim-answers'
import { hideUserinfo, scrub, systemErrorCode } from '@livery/core'
import { readToken } from '../admin/operator.ts'
import type { ConfigSources } from '../config/layers.ts'
import { configFile } from '../config/layers.ts'
import { loadAdmin } from '../config/load.ts'
import { formatListenAddress, type ListenAddress, parseListenAddress } from '../schema/values.ts'
import { EXIT, UsageError } from './exit-code.ts'
import type { Terminal } from './terminal.ts'

const DEFAULT_ADDRESS: ListenAddress = { host: '127.0.0.1', port: 15_100 }
const START = 'Start it with "livery run", or name its address with --admin'
const NO_FILE =
  'There is no livery.yaml here, so the default address was asked: run the command in the folder of the agent, or name its file with --config or its address with --admin'
const TIMEOUT_MS = 10_000
const FORBIDDEN = 403
/** Characters of an answer that is not a result that are shown: the agent's own are one line. */
const MAX_LINE = 600
/** The answer of an agent with 100,000 identities is shorter. */
const MAX_ANSWER = 400 * 1024 * 1024

export interface AdminAnswer {
  readonly status: number
  readonly body: string
}

/** Rejects with an `Error` that says where nobody answered, or with a `ConfigError` of the file that names the address. */
export async function askAdmin(path: string, sources: ConfigSources, timeoutMs?: number): Promise<AdminAnswer> {
  const admin = await adminOf(sources)
  return await call(admin, { method: 'GET', path, timeoutMs })
}

/**
 * The answer in JSON, an object with a list under `key`. Rejects as {@link askAdmin} does, and with an `Error` for another
 * status or another program: Envoy has a `/config_dump` too.
 */
export async function readAdmin<T extends object>(
  path: string,
  key: keyof T & string,
  sources: ConfigSources,
): Promise<T> {
  const { status, body } = await askAdmin(path, sources)
  if (status !== 200) throw new Error(`the agent answered ${status}: ${firstLine(body)}`)
  const answer = parseObject(body)
  if (answer && Array.isArray(Reflect.get(answer, key))) return answer as T
  throw new Error(
    'the program that answers there is not an agent of Livery: name the address of its admin endpoint with --admin',
  )
}

function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

/** As {@link askAdmin}, for a request that changes something: with the token of `admin.tokenFile`, where the caller can read it. */
async function changeByAdmin(path: string, sources: ConfigSources): Promise<AdminAnswer> {
  const admin = await adminOf(sources)
  const { tokenFile } = admin
  const token = tokenFile === undefined ? undefined : await readToken(tokenFile)
  const headers = token && 'text' in token ? { authorization: `Bearer ${token.text}` } : {}
  const answer = await call(admin, { method: 'PUT', path, headers })
  const isUnread = answer.status === FORBIDDEN && token !== undefined && 'refusal' in token
  return isUnread ? { ...answer, body: `${token.refusal}. ${answer.body}` } : answer
}

/** Makes a request that changes something, shows the answer, and resolves with the exit code. */
export async function showChange(path: string, sources: ConfigSources, terminal: Terminal): Promise<number> {
  const { status, body } = await changeByAdmin(path, sources)
  if (status >= 200 && status < 300) {
    terminal.out(`${firstLine(body)}\n`)
    return EXIT.ok
  }
  terminal.err(`livery: ${firstLine(body)}\n`)
  return EXIT.failed
}

async function call(
  { address, remedy }: Admin,
  request: Omit<HttpCall, 'address' | 'remedy' | 'who'>,
): Promise<AdminAnswer> {
  return await exchange({ address, ...request, who: `the agent at ${formatListenAddress(address)}`, remedy })
}

export interface HttpCall {
  readonly address: ListenAddress
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** For the whole call. Default: 10 s. */
  readonly timeoutMs?: number | undefined
  /** For the message where nobody answers: who should, and what to do. */
  readonly who: string
  readonly remedy: string
}

/** One request to a program of ours on this machine. Rejects with an `Error` that says why there is no answer. */
export async function exchange({ who, remedy, ...request }: HttpCall): Promise<AdminAnswer> {
  try {
    const response = await send(request)
    const { 'content-type': type = '' } = response.headers
    if (type.startsWith('text/html')) {
      response.destroy()
      throw new Error(`another program answers there (HTTP ${response.statusCode}, ${firstLine(type)})`)
    }
    return { status: response.statusCode ?? 0, body: await bodyOf(response) }
  } catch (cause) {
    throw new Error(`Cannot ask ${who}: ${reasonOf(cause)}. ${remedy}.`, { cause })
  }
}

function send({
  address,
  method,
  path,
  headers = {},
  timeoutMs = TIMEOUT_MS,
}: Omit<HttpCall, 'who' | 'remedy'>): Promise<IncomingMessage> {
  const { promise, resolve: answered, reject } = Promise.withResolvers<IncomingMessage>()
  const signal = AbortSignal.timeout(timeoutMs)
  const target = 'path' in address ? { socketPath: address.path, host: 'localhost' } : address
  const call = request({ ...target, method, path, headers, agent: false, signal }, answered)
  boundInterimAnswers(call)
    .on('error', error => reject(signal.aborted ? signal.reason : error))
    .end()
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

interface Admin {
  readonly address: ListenAddress
  /** For the message where nobody answers: what to do. */
  readonly remedy: string
  /** Only with an address from the configuration: a token is not for another program. */
  readonly tokenFile?: string | undefined
}

/** `--admin`, else that of the configuration, else the default. */
async function adminOf(sources: ConfigSources): Promise<Admin> {
  if (sources.admin !== undefined) return { address: givenAddress(sources.admin, sources), remedy: START }
  if (configFile(sources) === undefined) return { address: DEFAULT_ADDRESS, remedy: NO_FILE }
  const { address, tokenFile } = await loadAdmin(sources)
  const isAny = address.host === '0.0.0.0' || address.host === '::'
  return { address: isAny ? { ...address, host: '127.0.0.1' } : address, remedy: START, tokenFile }
}

function givenAddress(text: string, { workingDirectory }: ConfigSources): ListenAddress {
  const given = parseListenAddress(text)
  if (given && 'path' in given) return { path: resolve(workingDirectory, given.path) }
  if (given) return given
  throw new UsageError(
    `--admin ${JSON.stringify(hideUserinfo(text))} is not an address. Write host:port, such as 127.0.0.1:15100.`,
  )
}

function reasonOf(error: unknown): string {
  const code = systemErrorCode(error) ?? ''
  if (code === 'ECONNREFUSED' || code === 'ENOENT') return 'nothing listens there'
  // llhttp's, of what cannot be parsed.
  if (code === 'ECONNRESET' || code.startsWith('HPE_'))
    return `something listens there that does not answer as an admin endpoint does (${describe(error)})`
  return describe(error)
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.name === 'TimeoutError' ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message
}
