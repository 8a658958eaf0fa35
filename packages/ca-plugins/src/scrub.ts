/** Texts of others, fit for a log. */

const MAX_TEXT = 300

/**
 * One line of at most 300 characters, in which none of `secrets` is left and nothing looks like a credential. An error
 * with such a text never becomes a `cause`, since it has the text unscrubbed.
 */
export function scrub(text: string, secrets: readonly string[]): string {
  let scrubbed = text
  for (const secret of secrets) if (secret !== '') scrubbed = scrubbed.replaceAll(secret, '[secret]')
  return (
    scrubbed
      .replace(/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[private key]')
      .replace(/\bbearer\s+\S+/gi, 'bearer [token]')
      .replace(/\beyJ[\w.-]{8,}/g, '[token]')
      .replace(/[\s\p{C}]+/gu, ' ')
      .trimStart()
      // Before the next one, which takes the square of the length for a text of dots.
      .slice(0, MAX_TEXT)
      // What grpc-js adds to a failed connection when it has nothing to add.
      .replace(/(\. Resolution note:)?[. ]*$/, '')
  )
}
