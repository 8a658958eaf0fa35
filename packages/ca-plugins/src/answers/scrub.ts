/** Texts of others, as the messages of the plugins quote them. */
import { scrub as scrubText } from '@livery/core/plugin'
import { withoutNodeHint } from './certificate-failure.ts'

const MAX_TEXT = 300

/** One line of at most 300 characters, in which none of `secrets` is left and nothing looks like a credential. */
export function scrub(text: string, secrets: readonly string[]): string {
  // grpc-js adds this to a failed connection when it knows no more.
  return scrubText(withoutNodeHint(text), { secrets, maxLength: MAX_TEXT }).replace(/(\. Resolution note:)?[. ]*$/, '')
}
