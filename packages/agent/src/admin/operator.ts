/** The operator: the owner of the admin socket, or the bearer of the token. Only it may hide what the agent does. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { fstatSync } from 'node:fs'
import type { PeerCredentials } from '@livery/core'
import { readSmallFile } from '@livery/core/plugin'

/** The caller, as the connection and the request show it. */
export interface Caller {
  /** Known on a UNIX socket only. */
  readonly credentials: PeerCredentials | undefined
  /** The caller is on a UNIX socket, and without the native addon nobody there can be identified. */
  readonly isUnidentifiable?: boolean
  /** The `authorization` header. */
  readonly authorization: string | undefined
}

/** `by` is for the log; a refusal names what is missing. */
export type Authority = { readonly by: string } | { readonly refusal: string; readonly remedy: string }

const MAX_TOKEN_BYTES = 4_096
/** A shorter one could be guessed at a few thousand tries a second. */
const MIN_TOKEN_CHARS = 16

const NO_TOKEN_FILE = 'over TCP only a token shows who asks, and admin.tokenFile is not set'

/** Whether a caller is the operator: root or the agent's own user on the UNIX socket, or the bearer of the token. */
export async function authorityOf(caller: Caller, tokenFile: string | undefined): Promise<Authority> {
  const { credentials, authorization } = caller
  if (credentials && (credentials.uid === 0 || credentials.uid === process.geteuid?.()))
    return { by: `uid ${credentials.uid}, pid ${credentials.pid}` }
  const remedy = remedyFor(caller, tokenFile)
  if (!credentials && !caller.isUnidentifiable && tokenFile === undefined) return { refusal: NO_TOKEN_FILE, remedy }
  const given = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (given === undefined || tokenFile === undefined) return { refusal: missingFrom(caller, tokenFile), remedy }
  const token = await readToken(tokenFile)
  if ('refusal' in token) return { ...token, remedy }
  if (isSame(given, token.text)) return { by: 'the bearer of the token' }
  return { refusal: 'its token is not the right one', remedy }
}

function missingFrom({ credentials, isUnidentifiable }: Caller, tokenFile: string | undefined): string {
  const missing = tokenFile === undefined ? '' : ', and it came without the token'
  if (isUnidentifiable) return `callers of the UNIX socket cannot be identified without the native addon${missing}`
  return credentials
    ? `uid ${credentials.uid} is neither root nor the agent's user${missing}`
    : 'it came without the token'
}

function remedyFor({ credentials, isUnidentifiable }: Caller, tokenFile: string | undefined): string {
  if (isUnidentifiable)
    return 'Install or build the addon (npm run native), or set admin.tokenFile: the commands of livery send what is in it'
  if (credentials) return "Ask as root or the agent's user"
  const page =
    tokenFile === undefined ? 'set admin.tokenFile for the page' : 'enter the token of admin.tokenFile on the page'
  return `Make admin.address a UNIX socket and ask as root or the agent's user, or ${page}`
}

/** Reads the token at each use, and only from a file that nobody else can read or change. */
export async function readToken(file: string): Promise<{ readonly text: string } | { readonly refusal: string }> {
  try {
    const content = await readSmallFile(file, MAX_TOKEN_BYTES, async descriptor => {
      const { mode, uid } = fstatSync(descriptor)
      const isOurs = uid === 0 || uid === process.geteuid?.()
      if (!isOurs || (mode & 0o077) !== 0) throw new Error("it is not a file of mode 0600 of the agent's user or root")
    })
    const text = content.toString('utf8').trim()
    if (text.length >= MIN_TOKEN_CHARS) return { text }
    return { refusal: `admin.tokenFile ${file} has fewer than ${MIN_TOKEN_CHARS} characters` }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { refusal: `admin.tokenFile ${file} cannot be read: ${reason}` }
  }
}

/** The comparison takes a time that depends on neither text. */
export function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}
