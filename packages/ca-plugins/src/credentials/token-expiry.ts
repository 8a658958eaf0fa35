/** Checks a token's expiry before it is sent: a CA only says that the token is bad. */
import type { Clock, Credential } from '@livery/core/plugin'
import { decodeJwt } from 'jose/jwt/decode'
import { caError } from '../answers/ca-error.ts'

/** The last instant that a `Date` can name. */
const MAX_DATE_MS = 8.64e15

/** The `exp` of a JWT (RFC 7519) in milliseconds since the epoch; `undefined` for a JWT without it and for opaque tokens. */
export function expiryOf(token: string): number | undefined {
  let exp: unknown
  try {
    exp = decodeJwt(token).exp
  } catch {
    return undefined
  }
  return typeof exp === 'number' && Math.abs(exp * 1000) <= MAX_DATE_MS ? exp * 1000 : undefined
}

/** `token` with its expiry. Throws a `CAError` `unauthenticated` if it has expired; `what` names it: `the token in …`. */
export function unexpired(token: string, what: string, remedy: string, clock: Clock): Credential {
  const expiresAt = expiryOf(token)
  if (expiresAt === undefined) return { token }
  const now = clock.now()
  if (expiresAt > now) return { token, expiresAt }
  const reason = `it expired at ${new Date(expiresAt).toISOString()}, and now is ${new Date(now).toISOString()}`
  throw caError('unauthenticated', { action: `use ${what}`, reason, remedy, local: true })
}
