/** The tokens that this process had last: whoever was sent one may quote it, in the answer to another call too. */

import { formsOf, hideForms, type SecretForms } from './hide-secret.ts'

/** A source may give another token for each certificate. */
const MAX_KNOWN = 64
/** A shorter one is a word in texts of others, which never had it. */
const MIN_LENGTH = 8

/** The latest last. */
const known = new Map<string, SecretForms>()

/** From now on {@link scrub} leaves nothing of `token` in any text, until 64 others have come. */
export function rememberToken(token: string): void {
  if (token.length < MIN_LENGTH) return
  const forms = known.get(token) ?? formsOf(token)
  known.delete(token)
  known.set(token, forms)
  for (const oldest of known.keys()) {
    if (known.size <= MAX_KNOWN) break
    known.delete(oldest)
  }
}

/** The text without the tokens that are remembered. */
export function hideKnown(text: string): string {
  let hidden = text
  for (const forms of known.values()) hidden = hideForms(hidden, forms)
  return hidden
}
