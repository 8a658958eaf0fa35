/** The JSON answer of a server that issues access tokens (RFC 6749, section 5.1). */
import type { Credential } from '@livery/core/plugin'
import { badAnswer } from '../answers/certificate-chain.ts'
import type { JsonAnswer } from '../transport/https-json.ts'
import { expiryOf } from './token-expiry.ts'

/** `action` follows "Cannot" in the error; `askedAt` is when the lifetime began, milliseconds since the epoch. */
export function accessTokenOf({ json }: Pick<JsonAnswer, 'json'>, action: string, askedAt: number): Credential {
  const token = json?.['access_token']
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw badAnswer({ action, remedy: 'Check the address' }, 'has no access_token')
  const lifetime = secondsOf(json?.['expires_in'])
  const expiresAt = lifetime > 0 && lifetime < MAX_SECONDS ? askedAt + lifetime * 1000 : expiryOf(token)
  return { token, ...(expiresAt !== undefined && { expiresAt }) }
}

/** A number, which some services write as text; `NaN` for anything else. */
function secondsOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN
}

/** A hundred years. */
const MAX_SECONDS = 3_153_600_000
