/** The JSON answer of whoever issues access tokens (RFC 6749, section 5.1). */
import { CAError, type Credential } from '@livery/core'
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

/** Brackets, braces and commas: a list of a hundred issuers has a few hundred. */
const MAX_MARKS = 10_000

/** `undefined` for what is no object, and for more than 10,000 values: a million brackets take a hundred times as long as a long text. */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | undefined {
  if (marksOf(text) > MAX_MARKS) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

function marksOf(text: string): number {
  let marks = 0
  for (let index = 0; index < text.length && marks <= MAX_MARKS; index++) {
    const code = text.charCodeAt(index)
    if (code === COMMA || code === BRACKET || code === BRACE) marks++
  }
  return marks
}

const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
