/** Asks the admin endpoint of the agent that runs on this machine. */
import type { ConfigSources } from '../config/layers.ts'
import { configFile } from '../config/layers.ts'
import { loadAdminAddress } from '../config/load.ts'
import { formatHostPort, parseHostPort } from '../config/values.ts'
import { UsageError } from '../exit-code.ts'

const DEFAULT_ADDRESS = '127.0.0.1:15100'
const TIMEOUT_MS = 10_000
/** How much of an answer that is no result is shown: whoever listens there may send pages. */
export const MAX_BODY = 600
/** That of an agent with 100,000 identities is shorter. */
const MAX_ANSWER = 400 * 1024 * 1024

export interface AdminAnswer {
  readonly status: number
  readonly body: string
}

/** Rejects with an `Error` that says where nobody answered, or with a `ConfigError` of the file that names the address. */
export async function askAdmin(path: string, sources: ConfigSources): Promise<AdminAnswer> {
  const address = await adminAddress(sources)
  try {
    const response = await fetch(`http://${address}${path}`, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    return { status: response.status, body: await bodyOf(response) }
  } catch (cause) {
    const reason = refused(cause) ? 'nothing listens there' : describe(cause)
    throw new Error(
      `Cannot ask the agent at ${address}: ${reason}. Start it with "livery run", or name its address with --admin.`,
      { cause },
    )
  }
}

/** Another program may answer there, and go on forever. */
async function bodyOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of body ?? []) {
    text += decoder.decode(part, { stream: true })
    if (text.length > MAX_ANSWER) throw new Error(`its answer is longer than ${MAX_ANSWER} characters`)
  }
  return text + decoder.decode()
}

/** JSON as a terminal can print it: in it an escape means the same as the character. */
export function printableJson(value: unknown): string {
  const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, undefined, 2).replace(/[^\n\x20-\x7e]/g, escaped)
}

/** `--admin`, else that of the configuration, else the default. */
async function adminAddress(sources: ConfigSources): Promise<string> {
  if (sources.admin !== undefined) {
    if (parseHostPort(sources.admin)) return sources.admin
    throw new UsageError(
      `--admin ${JSON.stringify(sources.admin)} is no address. Write host:port, such as ${DEFAULT_ADDRESS}.`,
    )
  }
  if (configFile(sources) === undefined) return DEFAULT_ADDRESS
  const { host, port } = await loadAdminAddress(sources)
  const wildcard = host === '0.0.0.0' || host === '::'
  return formatHostPort({ host: wildcard ? '127.0.0.1' : host, port })
}

function refused(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED'
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`
  return error.cause instanceof Error ? error.cause.message : error.message
}
