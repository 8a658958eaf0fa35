/** Tokens from callers and answers of token servers: a caller is who holds its token, an answer is a token or a `bad-response`. */
import assert from 'node:assert/strict'
import { CAError } from '@livery/core/plugin'
import fc from 'fast-check'
import { jsonObject } from '../../src/answers/json-object.ts'
import { accessTokenOf } from '../../src/credentials/token-answer.ts'
import { expiryOf } from '../../src/credentials/token-expiry.ts'
import { staticTokens } from '../../src/istio-ca-server/authenticators.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const listed = staticTokens([{ token: 'the token', identity: WEB }])

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const header = fc.record(
  {
    alg: fc.constantFrom('none', 'HS256', 'ES256', 'RS256', 'PS512', '__proto__'),
    kid: fc.constantFrom('one', 'two', ''),
    crit: fc.jsonValue(),
    b64: fc.boolean(),
    zip: fc.constant('DEF'),
  },
  { requiredKeys: ['alg'] },
)
const claims = fc.record(
  {
    iss: fc.constant('https://issuer.example'),
    aud: fc.constant(['istio-ca']),
    sub: fc.constant('system:serviceaccount:default:web'),
    exp: fc.oneof(fc.integer(), fc.constantFrom(4_102_444_800, 1e300, '1')),
    nbf: fc.jsonValue(),
  },
  { requiredKeys: [] },
)
const jwt = fc
  .tuple(header, claims, fc.base64String({ maxLength: 120 }))
  .map(([h, c, s]) => `${base64(h)}.${base64(c)}.${s}`)
const token = fc.oneof(
  jwt,
  fc.string(),
  fc.constantFrom('the token ', 'The token', '..', 'a.b.c'),
  fc.jsonValue().map(value => `${base64(value)}.${base64(value)}.`),
)
const body = fc.oneof(
  fc.json(),
  fc.string(),
  fc
    .record(
      { access_token: fc.oneof(token, fc.jsonValue()), expires_in: fc.oneof(fc.jsonValue(), fc.double()) },
      { requiredKeys: [] },
    )
    .map(value => JSON.stringify(value)),
)

export const inputs = fc.record({ token, body, times: fc.constantFrom(1, 1, 1, 1, 2_000) })

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export async function run(input: Input): Promise<void> {
  const bearerToken = input.token.repeat(input.times)
  assert.equal((await listed.authenticate({ bearerToken }))?.identity, bearerToken === 'the token' ? WEB : undefined)
  const expiresAt = expiryOf(bearerToken)
  assert.ok(expiresAt === undefined || Number.isFinite(expiresAt))
  checkAnswer(input.body)
}

function checkAnswer(text: string): void {
  try {
    const credential = accessTokenOf({ json: jsonObject(text) }, 'get a token', 0)
    assert.match(credential.token, /^[\x21-\x7e]+$/)
    if (credential.expiresAt !== undefined) new Date(credential.expiresAt).toISOString()
  } catch (error) {
    assert.ok(error instanceof CAError, error instanceof Error ? error.stack : String(error))
    assert.ok(error.message.length < 400)
  }
}
