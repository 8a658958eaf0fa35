import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { SpiffeId } from '@livery/core'
import { FakeClock } from '@livery/core/testing'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import { API, replaceFile, temporaryDirectory, WEB } from '../../test/citadel-setup.ts'
import type { Authenticator } from './authenticators.ts'
import { type JwtTokensOptions, jwtTokens } from './jwt-authenticator.ts'

const ISSUER = 'https://kubernetes.default.svc'
const NODE: SpiffeId = 'spiffe://cluster.local/ns/kube-system/sa/livery'
const CLAIMS: JWTPayload = { iss: ISSUER, aud: ['istio-ca'], sub: 'system:serviceaccount:default:web' }

async function signer(kid: string, algorithm = 'RS256') {
  const { privateKey, publicKey } = await generateKeyPair(algorithm)
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' }
  const sign = (claims: JWTPayload, expiresInSeconds: number | undefined, clock: FakeClock) => {
    const jwt = new SignJWT(claims).setProtectedHeader({ alg: algorithm, kid })
    if (expiresInSeconds !== undefined) jwt.setExpirationTime(clock.now() / 1000 + expiresInSeconds)
    return jwt.sign(privateKey)
  }
  return { jwk, sign }
}

async function setUp(t: TestContext, options: Partial<JwtTokensOptions> = {}) {
  const directory = await temporaryDirectory(t)
  const jwksFile = join(directory, 'jwks.json')
  const { jwk, sign } = await signer('one')
  await writeFile(jwksFile, JSON.stringify({ keys: [jwk] }))
  const clock = new FakeClock()
  const warnings: string[] = []
  const warn = (message: string) => warnings.push(message)
  const tokens = await jwtTokens({ clock, jwksFile, issuer: ISSUER, trustDomain: 'cluster.local', warn, ...options })
  const token = (claims: JWTPayload = {}, expiresInSeconds: number | undefined = 600) =>
    sign({ ...CLAIMS, ...claims }, expiresInSeconds, clock)
  return { tokens, token, clock, jwksFile, jwk, warnings }
}

async function identityOf(tokens: Authenticator, bearerToken: string) {
  return (await tokens.authenticate({ bearerToken }))?.identity
}

test('a service account token is its SPIFFE ID', async t => {
  const { tokens, token } = await setUp(t)
  assert.deepEqual(await tokens.authenticate({ bearerToken: await token() }), { identity: WEB })
})

test('an ES256 key works as well as an RS256 one', async t => {
  const { tokens, clock, jwksFile, jwk } = await setUp(t)
  const { jwk: other, sign } = await signer('two', 'ES256')
  await replaceFile(jwksFile, JSON.stringify({ keys: [jwk, other] }))
  assert.equal(await identityOf(tokens, await sign(CLAIMS, 600, clock)), WEB)
})

test("a token of a node's agent comes with the identities that it may ask for", async t => {
  const { tokens, token } = await setUp(t, { nodes: new Map([[NODE, [WEB, API]]]) })
  const caller = await tokens.authenticate({
    bearerToken: await token({ sub: 'system:serviceaccount:kube-system:livery' }),
  })
  assert.deepEqual(caller, { identity: NODE, impersonates: new Set([WEB, API]) })
})

const refusedClaims: readonly JWTPayload[] = [
  { iss: 'https://other.example' },
  { aud: ['vault'] },
  { aud: [] },
  { sub: 'system:node:n1' },
  { sub: 'system:serviceaccount:default' },
  { sub: 'system:serviceaccount:default:web:x' },
  { sub: 'system:serviceaccount:default:..' },
  { sub: 'system:serviceaccount:a/b:web' },
  { sub: '' },
]
for (const claims of refusedClaims)
  test(`a token with ${JSON.stringify(claims)} is refused`, async t => {
    const { tokens, token } = await setUp(t)
    assert.equal(await identityOf(tokens, await token(claims)), undefined)
  })

test('a token that is expired, never expires, is not yet valid, unsigned or garbage is refused', async t => {
  const { tokens, token, clock } = await setUp(t)
  const shortLived = await token({}, 60)
  assert.equal(await identityOf(tokens, shortLived), WEB)
  clock.jump(61_000)
  const now = clock.now() / 1000
  const forged = await signer('one')
  const refused = [
    shortLived,
    await forged.sign({ ...CLAIMS }, undefined, clock),
    await forged.sign({ ...CLAIMS }, 600, clock),
    await token({ nbf: now + 60 }),
    new UnsecuredJWT({ ...CLAIMS, exp: now + 600 }).encode(),
    await new SignJWT({ ...CLAIMS, exp: now + 600 })
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(Buffer.from('a secret that is long enough for it')),
    'garbage',
    '',
  ]
  for (const bearerToken of refused) assert.equal(await identityOf(tokens, bearerToken), undefined)
  assert.equal(await tokens.authenticate({}), undefined)
})

test('a token without an expiry is refused though it is well signed', async t => {
  const { tokens, clock, jwksFile } = await setUp(t)
  const { jwk, sign } = await signer('three')
  await replaceFile(jwksFile, JSON.stringify({ keys: [jwk] }))
  assert.equal(await identityOf(tokens, await sign(CLAIMS, 600, clock)), WEB)
  assert.equal(await identityOf(tokens, await sign(CLAIMS, undefined, clock)), undefined)
})

test('keys that are added to the file are used at the next call, removed ones no more', async t => {
  const { tokens, token, clock, jwksFile } = await setUp(t)
  const { jwk, sign } = await signer('two')
  const [old, fresh] = [await token(), await sign(CLAIMS, 600, clock)]
  assert.deepEqual([await identityOf(tokens, old), await identityOf(tokens, fresh)], [WEB, undefined])
  await replaceFile(jwksFile, JSON.stringify({ keys: [jwk] }))
  assert.deepEqual([await identityOf(tokens, old), await identityOf(tokens, fresh)], [undefined, WEB])
})

test('while the file is broken every token is refused, with one warning; once whole, all is well', async t => {
  const { tokens, token, jwksFile, jwk, warnings } = await setUp(t)
  const bearerToken = await token()
  await replaceFile(jwksFile, '{"keys": [')
  assert.equal(await identityOf(tokens, bearerToken), undefined)
  assert.equal(await identityOf(tokens, bearerToken), undefined)
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /Cannot use the JWKS file .*jwks\.json: it is not valid JSON/)
  await replaceFile(jwksFile, JSON.stringify({ keys: [jwk] }))
  assert.equal(await identityOf(tokens, bearerToken), WEB)
})

test('a missing or useless file, issuer or trust domain is refused at the start', async t => {
  const directory = await temporaryDirectory(t)
  await assert.rejects(setUp(t, { jwksFile: join(directory, 'none') }), /Cannot use the JWKS file .*none: ENOENT/)
  await writeFile(join(directory, 'token'), 'eyJhbGciOiJSUzI1NiJ9.e30.c2ln')
  await assert.rejects(setUp(t, { jwksFile: join(directory, 'token') }), (error: Error) => {
    assert.doesNotMatch(error.message, /eyJ/)
    return /it is not valid JSON/.test(error.message)
  })
  await writeFile(join(directory, 'empty'), '{"keys":[]}')
  await assert.rejects(setUp(t, { jwksFile: join(directory, 'empty') }), /no list "keys" with a key in it/)
  await assert.rejects(setUp(t, { issuer: '' }), { name: 'TypeError', message: /issuer is empty/ })
  await assert.rejects(setUp(t, { trustDomain: 'A b' }), { name: 'TypeError', message: /trustDomain "A b"/ })
})
