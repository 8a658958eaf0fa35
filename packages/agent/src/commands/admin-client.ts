/** Asks the admin endpoint of the agent that runs on this machine. */
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { resolve } from 'node:path'
import { boundInterimAnswers } from '@livery/ca-plugins/interim-answers'
import { hideUserinfo, scrub, systemErrorCode } from '@livery/core/plugin'
import * as v from 'valibot'
import { readToken } from '../admin/operator.ts'
import { CONFIG_HEADER, MISDIRECTED, nameConfig } from '../admin/request-refusal.ts'
import { sidecarSettings } from '../config/environment-settings.ts'
import type { ConfigSources } from '../config/layers.ts'
import { configFile } from '../config/layers.ts'
import { loadAdmin } from '../config/load.ts'
import { formatListenAddress, type ListenAddress, parseListenAddress } from '../schema/values.ts'
import { EXIT, UsageError } from './exit-code.ts'
import type { Terminal } from './terminal.ts'

const START = 'Start it with "livery run", or name its address with --admin'
const OTHER_PROGRAM = 'Stop it, or use another address'
const OTHER_USER = 'Run the command as root, or as the user that it runs as'
const NO_FILE =
  'Cannot find the agent: there is no livery.yaml here. Run the command in the folder of the agent, or name its file with --config or its address with --admin.'
const OVER_TCP =
  "Not done. The token was not sent: another program could be listening on this TCP port. Make admin.address a UNIX socket, which is the default, and ask as root or the agent's user."
const TIMEOUT_MS = 10_000
const FORBIDDEN = 403
/** Characters shown of an answer that is not a result: the agent's own answers are one line. */
const MAX_LINE = 600
/** The dump of 20,000 identities, the default ceiling, has 80 MB. */
const MAX_ANSWER_BYTES = 150_000_000

export interface AdminAnswer {
  readonly status: number
  readonly body: string
}

/** Rejects with an `Error` that names the address where nobody answered, or with a `ConfigError` for the file that names it. */
export async function askAdmin(path: string, sources: ConfigSources, timeoutMs?: number): Promise<AdminAnswer> {
  const admin = await adminOf(sources)
  return await call(admin, { method: 'GET', path, timeoutMs })
}

/**
 * The answer in JSON, of this form. Rejects as {@link askAdmin} does, and with an `Error` for another status or another
 * program: Envoy has a `/config_dump` too.
 */
export async function readAdmin<T extends object>(
  path: string,
  form: v.GenericSchema<unknown>,
  sources: ConfigSources,
): Promise<T> {
  const { status, body } = await askAdmin(path, sources)
  if (status !== 200) throw new Error(`the agent answered ${status}: ${firstLine(body)}`)
  return parseAnswer<T>(body, form)
}

/** Throws an `Error` for a text of another form. Fields that the form does not name are passed on unread. */
export function parseAnswer<T extends object>(body: string, form: v.GenericSchema<unknown>): T {
  const answer = parseJson(body)
  // The forms leave out what the commands only print, so they are narrower than the type.
  if (v.is(form, answer)) return answer as T
  throw new Error(
    'the program that answers there is not an agent of Livery: name the address of its admin endpoint with --admin',
  )
}

/** `undefined` if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * As {@link askAdmin}, for a request that changes something. It sends the token of `admin.tokenFile` if the agent needs it to
 * recognise the caller, the caller can read it, and the kernel confirms that the agent receives it.
 */
async function changeByAdmin(path: string, sources: ConfigSources): Promise<AdminAnswer> {
  const admin = await adminOf(sources)
  const token = await tokenFor(admin)
  if ('text' in token) {
    const { connectToAgent, seesPeers } = await import('./agent-connection.ts')
    // An agent with the addon sees who asks, as this process sees who listens.
    const answer = seesPeers ? await call(admin, { method: 'PUT', path }) : undefined
    if (answer && answer.status !== FORBIDDEN) return answer
    const headers = { authorization: `Bearer ${token.text}` }
    return await call(admin, { method: 'PUT', path, headers, connect: connectToAgent })
  }
  const answer = await call(admin, { method: 'PUT', path })
  const { refusal } = token
  if (answer.status !== FORBIDDEN || refusal === undefined) return answer
  return { ...answer, body: refusal === OVER_TCP ? refusal : `${refusal}. ${answer.body}` }
}

/** `refusal`: why the token is not sent; `undefined` if there is none to send. */
async function tokenFor({
  address,
  tokenFile,
}: Admin): Promise<{ readonly text: string } | { readonly refusal: string | undefined }> {
  if (tokenFile === undefined) return { refusal: undefined }
  return 'path' in address ? await readToken(tokenFile) : { refusal: OVER_TCP }
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
  { address, remedy, file }: Admin,
  request: Omit<HttpCall, 'address' | 'remedy' | 'who'>,
): Promise<AdminAnswer> {
  const where = formatListenAddress(address)
  const who = `the agent at ${where}`
  const headers = { ...request.headers, ...(file !== undefined && { [CONFIG_HEADER]: nameConfig(file) }) }
  const answer = await exchange({ address, ...request, headers, who, remedy })
  if (answer.status !== MISDIRECTED) return answer
  throw new Error(
    `Cannot ask the agent of ${file}: its admin.address, ${where}, is held by ${firstLine(answer.body)}. Stop the holder, or change admin.address. To ask the holder, use --admin ${where}.`,
  )
}

export interface HttpCall {
  readonly address: ListenAddress
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Opens the connection to a UNIX socket. Default: to whoever listens there. */
  readonly connect?: ((path: string) => Promise<Socket>) | undefined
  /** Limit for the whole call. Default: 10 s. */
  readonly timeoutMs?: number | undefined
  /** Names the program that should answer, and the remedy, for the message where nobody answers. */
  readonly who: string
  readonly remedy: string
}

/** One request to a program of ours on this machine. Rejects with an `Error` that says why there is no answer. */
export async function exchange({ who, remedy, timeoutMs = TIMEOUT_MS, ...request }: HttpCall): Promise<AdminAnswer> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const response = await send(request, signal)
    const { 'content-type': type = '' } = response.headers
    if (type.startsWith('text/html')) {
      response.destroy()
      throw new OtherProgram(`another program answers there (HTTP ${response.statusCode}, ${firstLine(type)})`)
    }
    return { status: response.statusCode ?? 0, body: await bodyOf(response) }
  } catch (error) {
    const cause = signal.aborted ? signal.reason : error
    const { reason, advice = remedy } = faultOf(cause)
    throw new Error(`Cannot ask ${who}: ${reason}. ${advice}.`, { cause })
  }
}

async function send(
  { address, method, path, headers = {}, connect }: Omit<HttpCall, 'who' | 'remedy' | 'timeoutMs'>,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const connection = 'path' in address ? await connect?.(address.path) : undefined
  const { promise, resolve: answered, reject } = Promise.withResolvers<IncomingMessage>()
  const target = 'path' in address ? { socketPath: address.path, host: 'localhost' } : address
  // `agent: false` makes Node open another connection, which nobody has checked.
  const route = connection ? { createConnection: () => connection } : { agent: false }
  const call = request({ ...target, method, path, headers, signal, ...route }, answered)
  boundInterimAnswers(call).on('error', reject).end()
  return await promise
}

/** Another program may answer there, and never end. */
async function bodyOf(response: IncomingMessage): Promise<string> {
  const { 'content-length': length, 'transfer-encoding': encoding } = response.headers
  // Such a body ends with its connection, even a broken one. Every agent and every Envoy states the length.
  if (length === undefined && encoding === undefined) {
    response.destroy()
    throw new Error('its answer does not say where it ends')
  }
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of response) {
      parts.push(part)
      bytes += part.length
      if (bytes > MAX_ANSWER_BYTES) break
    }
  } catch (cause) {
    throw new Error('its answer was cut off', { cause })
  }
  if (bytes > MAX_ANSWER_BYTES) throw new Error(`its answer is longer than ${MAX_ANSWER_BYTES / 1_000_000} MB`)
  return Buffer.concat(parts).toString()
}

/** The first line of an answer, as a terminal can print it. */
export function firstLine(body: string): string {
  return scrub(body.trimStart().split('\n', 1)[0] ?? '', { maxLength: MAX_LINE })
}

interface Admin {
  readonly address: ListenAddress
  /** What to do where nobody answers, for the message. */
  readonly remedy: string
  /** The configuration that names the address. */
  readonly file?: string | undefined
  /** Set only for an address from the configuration: another program must not get the token. */
  readonly tokenFile?: string | undefined
}

/** The address from `--admin`, else from the configuration, where the default depends on its sockets. */
async function adminOf(sources: ConfigSources): Promise<Admin> {
  const { admin, environment, workingDirectory } = sources
  if (admin !== undefined) return { address: givenAddress(admin, sources), remedy: START }
  const file = configFile(sources)
  if (file === undefined && !sidecarSettings(environment, workingDirectory)) throw new Error(NO_FILE)
  const { address, tokenFile } = await loadAdmin(sources)
  const isAny = address.host === '0.0.0.0' || address.host === '::'
  return { address: isAny ? { ...address, host: '127.0.0.1' } : address, remedy: START, file, tokenFile }
}

function givenAddress(text: string, { workingDirectory }: ConfigSources): ListenAddress {
  const given = parseListenAddress(text)
  if (given && 'path' in given) return { path: resolve(workingDirectory, given.path) }
  if (given) return given
  throw new UsageError(
    `--admin ${JSON.stringify(hideUserinfo(text))} is not an address. Write host:port, such as 127.0.0.1:15100.`,
  )
}

class OtherProgram extends Error {}

/** Why there is no answer. `advice` replaces the caller's remedy, to start the program, where that does not help. */
function faultOf(error: unknown): { readonly reason: string; readonly advice?: string } {
  const code = systemErrorCode(error) ?? ''
  if (code === 'ECONNREFUSED' || code === 'ENOENT') return { reason: 'nothing listens there' }
  if (isForbidden(error))
    return { reason: `uid ${process.getuid?.() ?? -1} may not open its socket (${code})`, advice: OTHER_USER }
  if (error instanceof OtherProgram) return { reason: error.message, advice: OTHER_PROGRAM }
  // llhttp's codes for what cannot be parsed.
  if (code === 'ECONNRESET' || code.startsWith('HPE_'))
    return {
      reason: `something listens there that does not answer as an admin endpoint does (${describe(error)})`,
      advice: OTHER_PROGRAM,
    }
  return { reason: describe(error) }
}

/** The socket is there, and belongs to another user. */
function isForbidden(error: unknown): boolean {
  return systemErrorCode(error) === 'EACCES'
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.name === 'TimeoutError' ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message
}
