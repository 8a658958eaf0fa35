/** The JSON answer of whoever issues access tokens (RFC 6749, section 5.1). */

import { CAError, type Credential } from '@livery/core'
import { jsonObject } from '../answers/json-object.ts'
import { expiryOf } from './token-expiry.ts'

/** `what` goes after "Cannot", for messages; `askedAt` is when the lifetime began, in milliseconds since the epoch. */
export function accessTokenOf(body: string, what: string, askedAt: number): Credential {
  const answer = jsonObject(body)
  const token = answer?.['access_token']
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw new CAError('bad-response', `Cannot ${what}: its answer has no access_token. Check the address.`)
  const lifetime = secondsOf(answer?.['expires_in'])
  const expiresAt = lifetime > 0 && lifetime < MAX_SECONDS ? askedAt + lifetime * 1000 : expiryOf(token)
  return { token, ...(expiresAt !== undefined && { expiresAt }) }
}

/** A number, or one in a text, as some services write it; NaN of anything else. */
function secondsOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN
}

/** A hundred years. */
const MAX_SECONDS = 3_153_600_000
