/** The token that a call to the CA is authenticated with, read from its file for each call. */
import { readSmallFile } from '../changing-file.ts'

/** A token, or why there is none: the reason carries nothing of the file's content. */
export type TokenReading =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'none'; readonly reason: string }

const MAX_BYTES = 65_536

export async function readToken(path: string): Promise<TokenReading> {
  try {
    const token = (await readSmallFile(path, MAX_BYTES)).toString().trim()
    if (token === '') return { kind: 'none', reason: 'it is empty' }
    if (!/^[\x21-\x7e]+$/.test(token))
      return { kind: 'none', reason: 'it holds other characters than those of a token' }
    return { kind: 'token', token }
  } catch (error) {
    return { kind: 'none', reason: error instanceof Error ? error.message : String(error) }
  }
}
