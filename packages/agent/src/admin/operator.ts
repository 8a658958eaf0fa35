/** The callers that are allowed to hide what the agent does: the owner of the admin socket, or who has the token. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { PeerCredentials } from '@livery/core'

/** The caller, as far as the connection and the request say. */
export interface Caller {
  /** On a UNIX socket only. */
  readonly credentials: PeerCredentials | undefined
  /** The header. */
  readonly authorization: string | undefined
}

/** `by` is for the log; a refusal says what is missing. */
export type Authority = { readonly by: string } | { readonly refusal: string }

const MAX_TOKEN_BYTES = 4_096
/** A shorter one could be guessed at a few thousand tries a second. */
const MIN_TOKEN_CHARS = 16

/** Whether a caller is the operator: root or the agent's own user on the UNIX socket, or the bearer of the token. */
export async function authorityOf(
  { credentials, authorization }: Caller,
  tokenFile: string | undefined,
): Promise<Authority> {
  if (credentials && (credentials.uid === 0 || credentials.uid === process.geteuid?.()))
    return { by: `uid ${credentials.uid}, pid ${credentials.pid}` }
  const given = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (given === undefined || tokenFile === undefined) return { refusal: 'it came without the token' }
  const token = await readToken(tokenFile)
  if ('refusal' in token) return token
  return isSame(given, token.text) ? { by: 'the bearer of the token' } : { refusal: 'its token is not the right one' }
}

/** Read when it is used, and only from a file that nobody else can read or change. */
export async function readToken(file: string): Promise<{ readonly text: string } | { readonly refusal: string }> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const { mode, uid, size } = await handle.stat()
    const isOurs = uid === 0 || uid === process.geteuid?.()
    if ((mode & constants.S_IFMT) !== constants.S_IFREG || !isOurs || (mode & 0o077) !== 0 || size > MAX_TOKEN_BYTES)
      return { refusal: `admin.tokenFile ${file} is not a small file of mode 0600 of the agent's user or root` }
    const text = (await handle.readFile('utf8')).trim()
    if (text.length >= MIN_TOKEN_CHARS) return { text }
    return { refusal: `admin.tokenFile ${file} has fewer than ${MIN_TOKEN_CHARS} characters` }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { refusal: `admin.tokenFile ${file} cannot be read: ${reason}` }
  }
}

/** In a time that depends on neither. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}
