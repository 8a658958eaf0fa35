/** The tokens that this process used last: a peer that was sent one may quote it, even in the answer to another call. */

import { formsOf, hideForms, type SecretForms } from './hide-secret.ts'

/** A source may give another token for each certificate. */
const MAX_KNOWN = 64
/** A shorter one would match ordinary words in texts of peers that never saw it. */
const MIN_LENGTH = 8

/** The latest last. */
const known = new Map<string, SecretForms>()

/** {@link scrub} removes `token` from every text, until 64 newer ones have come. */
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
