/** Cleans a peer's text before a plugin's message quotes it. */
import { scrub as scrubText } from '@livery/core/plugin'
import { withoutNodeHint } from './certificate-failure.ts'

const MAX_TEXT = 300

/** Returns one line of at most 300 characters without any of `secrets` or anything that looks like a credential. */
export function scrub(text: string, secrets: readonly string[]): string {
  // grpc-js appends this to a failed connection without further details.
  return scrubText(withoutNodeHint(text), { secrets, maxLength: MAX_TEXT }).replace(/(\. Resolution note:)?[. ]*$/, '')
}
