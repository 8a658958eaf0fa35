/** A stand-in for step-ca: it checks one-time tokens as the real one does, and a {@link FakeCA} signs. */
import 'reflect-metadata'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { type Clock, pemToDer } from '@livery/core/plugin'
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from '@peculiar/x509'
import {
  CompactEncrypt,
  calculateJwkThumbprint,
  exportJWK,
  FlattenedEncrypt,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTPayload,
  jwtVerify,
} from 'jose'
import {
  type JsonCall,
  JsonCaServer,
  type JsonReply,
  type JsonStandInOptions,
  type Refusals,
  replyOf,
  retryAfter,
} from './json-ca-server.ts'

export const PROVISIONER = 'livery@example'

const SEE_LOGS = 'Please see the certificate authority logs for more info.'
const FORBIDDEN = 'The request was forbidden by the certificate authority:'
const REFUSALS: Refusals = {
  unauthenticated: [401, `The request lacked necessary authorization to be completed. ${SEE_LOGS}`],
  denied: [403, `${FORBIDDEN} uri not allowed.`],
  'invalid-csr': [403, `${FORBIDDEN} certificate request RSA key must be at least 2048 bits (256 bytes).`],
  'ttl-too-long': [
    403,
    `${FORBIDDEN} requested duration of 24h1m0s is more than the authorized maximum certificate duration of 1h1m0s.`,
  ],
  'rate-limited': [429, 'Too many requests'],
  unavailable: [503, 'Service Unavailable'],
}

/** The key that the server checks tokens with; its private half is for the plugin. */
interface ProvisionerPair {
  readonly privateJwk: JWK
  readonly publicJwk: JWK
}

/** As `step crypto jwk create` makes them: the kid is the thumbprint. */
export async function provisionerPair(alg = 'ES256'): Promise<ProvisionerPair> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  const publicJwk = await exportJWK(publicKey)
  const kid = await calculateJwkThumbprint(publicJwk)
  return {
    privateJwk: { ...(await exportJWK(privateKey)), use: 'sig', alg, kid },
    publicJwk: { ...publicJwk, use: 'sig', alg, kid },
  }
}

/** The key with a password, in the two forms of `step`: as ca.json has it, and as `step crypto jwk create` writes it. */
export async function encrypted(jwk: JWK, password: string, form: 'compact' | 'json'): Promise<string> {
  const plain = new TextEncoder().encode(JSON.stringify(jwk))
  const secret = new TextEncoder().encode(password)
  const header = { alg: 'PBES2-HS256+A128KW', enc: 'A256GCM', cty: 'jwk+json' }
  const parameters = { p2c: 100_000 }
  return form === 'compact'
    ? new CompactEncrypt(plain).setProtectedHeader(header).setKeyManagementParameters(parameters).encrypt(secret)
    : JSON.stringify(
        await new FlattenedEncrypt(plain)
          .setProtectedHeader(header)
          .setKeyManagementParameters(parameters)
          .encrypt(secret),
        null,
        2,
      )
}

interface StepCaOptions extends JsonStandInOptions {
  /** Checks one-time tokens of this provisioner; without it, tokens are for `ca` to check. */
  readonly provisioner?: JWK
}

export function startStepCa(options: StepCaOptions): Promise<JsonCaServer> {
  const used = new Set<string>()
  return JsonCaServer.startStandIn(options, call => handle(call, options, used))
}

async function handle(call: JsonCall, options: StepCaOptions, used: Set<string>): Promise<JsonReply> {
  const { ca } = options
  if (call.method === 'GET' && /^\/(1\.0\/)?roots$/.test(call.path))
    return { status: 201, body: { crts: ca.trustBundle() } }
  const [, sha] = /^\/root\/([0-9a-f]{64})$/.exec(call.path) ?? []
  if (call.method === 'GET' && sha !== undefined) {
    const found = ca.trustBundle().find(pem => fingerprintOf(pem) === sha)
    return found === undefined ? refusal(404, 'not found') : { status: 200, body: { ca: found } }
  }
  if (call.method === 'POST' && call.path === '/1.0/sign') return sign(call, options, used)
  return refusal(404, 'The requested resource could not be found.')
}

async function sign({ json }: JsonCall, { ca, clock, provisioner }: StepCaOptions, used: Set<string>) {
  const { csr, ott, notAfter } = json
  if (typeof csr !== 'string' || typeof ott !== 'string' || typeof notAfter !== 'string')
    return refusal(400, 'The request could not be completed: missing ott.')
  if (provisioner && !(await isGoodToken(ott, csr, provisioner, clock, used)))
    return refusal(...REFUSALS.unauthenticated)
  const [, seconds] = /^(\d+)s$/.exec(notAfter) ?? []
  const answered = await ca.answer({ csr, ttlSeconds: Number(seconds), ...(!provisioner && { token: ott }) })
  return replyOf(answered, {
    issued: ({ chain: [crt, ...rest], truncated }) => ({
      status: 201,
      body: { crt, ca: rest[0], certChain: crt === undefined ? [] : [crt, ...rest] },
      truncated,
    }),
    refused(refused) {
      const [status, text] = REFUSALS[refused.code]
      return { ...refusal(status, `${text} ${refused.message}`), headers: retryAfter(refused) }
    },
  })
}

/** Signature, issuer, audience, times, names of the CSR, its hash, and used for the first time. */
async function isGoodToken(ott: string, csr: string, jwk: JWK, clock: Clock, used: Set<string>): Promise<boolean> {
  try {
    const { payload } = await jwtVerify(ott, await importJWK(jwk), {
      issuer: PROVISIONER,
      currentDate: new Date(clock.now()),
      clockTolerance: 60,
    })
    const { jti, aud, sub } = payload
    if (jti === undefined || used.has(jti) || sub === undefined) return false
    used.add(jti)
    const isOurs = /^https?:\/\/(localhost|127\.0\.0\.1)(:\d+)?\/1\.0\/sign$/.test(String(aud))
    return isOurs && fits(payload, pemToDer(csr))
  } catch {
    return false
  }
}

function fits(payload: JWTPayload, csr: Buffer): boolean {
  const cnf = payload['cnf'] as Readonly<Record<string, unknown>> | undefined
  const { extensions } = new Pkcs10CertificateRequest(new Uint8Array(csr))
  const names = extensions.find(extension => extension instanceof SubjectAlternativeNameExtension)
  const asked = names?.names.items.map(({ value }) => value)
  return (
    JSON.stringify(payload['sans']) === JSON.stringify(asked) &&
    cnf?.['x5rt#S256'] === createHash('sha256').update(csr).digest('base64url')
  )
}

function refusal(status: number, message: string) {
  return { status, body: { status, message } }
}

export function fingerprintOf(pem: string): string {
  return createHash('sha256').update(pemToDer(pem)).digest('hex')
}

export async function writeKey(path: string, jwk: JWK): Promise<string> {
  await writeFile(path, JSON.stringify(jwk), { mode: 0o600 })
  return path
}
