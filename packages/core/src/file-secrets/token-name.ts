/** Names of tokens, `token://AUDIENCE`. A token is the caller's own, so ledgers append the pod to the name. */
import type { TokenName } from '../secrets/secret-name.ts'

export const TOKEN_SCHEME = 'token://'
/** Precedes the UID of the pod. No audience contains it. */
const SEPARATOR = '~'
const MAX_AUDIENCE = 512

/** Reads a name as callers and rules write it, without a pod; a text is the reason why it is not one, after "it …". */
export function parseTokenName(text: string): TokenName | string {
  const audience = text.slice(TOKEN_SCHEME.length)
  if (audience === '' || audience.length > MAX_AUDIENCE)
    return `has an audience of 0 or over ${MAX_AUDIENCE} characters`
  if (!/^[\x21-\x7e]+$/.test(audience)) return 'has an audience with a space or a character outside of ASCII'
  return /[*~]/.test(audience) ? 'has an audience with * or ~' : { kind: 'pod-token', audience }
}

export function formatTokenName({ audience, pod }: TokenName): string {
  return `${TOKEN_SCHEME}${audience}${pod === undefined ? '' : `${SEPARATOR}${pod}`}`
}
