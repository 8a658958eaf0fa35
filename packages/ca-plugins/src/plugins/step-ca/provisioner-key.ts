/** The key of a JWK provisioner of step-ca, as `step` keeps it in a file, and the one-time tokens that it signs. */
import { createHash, randomUUID } from 'node:crypto'
import {
  type CAError,
  type CertificateSigningRequest,
  ChangingFile,
  type Clock,
  type SpiffeId,
} from '@livery/core/plugin'
import { type CryptoKey, calculateJwkThumbprint, type DecryptOptions, importJWK, type JWK, SignJWT } from 'jose'
import { compactDecrypt } from 'jose/jwe/compact/decrypt'
import { flattenedDecrypt } from 'jose/jwe/flattened/decrypt'
import { caError } from '../../answers/ca-error.ts'
import { jsonObject } from '../../answers/json-object.ts'
import { reasonOf } from '../../answers/reason-of.ts'

interface ProvisionerKeyOptions {
  /** A private JWK, or one encrypted with a password: a JWE, compact or as JSON. */
  readonly keyFile: string
  /** The password of the key; white space at the end is left out. */
  readonly passwordFile?: string
  /** The name of the provisioner. */
  readonly provisioner: string
  /** The URL at which certificates are requested. */
  readonly audience: string
  readonly clock: Clock
}

interface SigningKey {
  readonly key: CryptoKey
  readonly alg: string
  readonly kid: string
}

/** The files as read, and the result. */
interface Held {
  readonly bytes: Buffer
  readonly password: Buffer | undefined
  readonly key: Promise<SigningKey>
}

const MAX_BYTES = 65_536
const LIFETIME_SECONDS = 5 * 60
/** `step` writes 100,000 or 600,000, by its version; a round costs less than a microsecond. */
const MAX_PASSWORD_ROUNDS = 5_000_000
const DECRYPTION: DecryptOptions = {
  keyManagementAlgorithms: ['PBES2-HS256+A128KW', 'PBES2-HS384+A192KW', 'PBES2-HS512+A256KW'],
  maxPBES2Count: MAX_PASSWORD_ROUNDS,
}
const CURVE_ALGORITHMS: Readonly<Record<string, string>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
  Ed25519: 'EdDSA',
}

/** Reads the files for each token; decrypts the key again only when they have changed. */
export class ProvisionerKey {
  readonly #options: ProvisionerKeyOptions
  readonly #keyFile: ChangingFile
  readonly #passwordFile: ChangingFile | undefined
  #held: Held | undefined

  constructor(options: ProvisionerKeyOptions) {
    this.#options = options
    this.#keyFile = new ChangingFile(options.keyFile, MAX_BYTES)
    this.#passwordFile = options.passwordFile === undefined ? undefined : new ChangingFile(options.passwordFile, 4096)
  }

  /** Signs a token for this CSR only, with its names, the identity first. Rejects with a `CAError` `unauthenticated` without a usable key. */
  async sign(sans: readonly [SpiffeId, ...string[]], { der }: Pick<CertificateSigningRequest, 'der'>): Promise<string> {
    const { key, alg, kid } = await this.#key()
    const { provisioner, audience, clock } = this.#options
    const now = Math.floor(clock.now() / 1000)
    // A stolen token cannot be used for another key.
    const cnf = { 'x5rt#S256': createHash('sha256').update(der).digest('base64url') }
    return new SignJWT({ sans: [...sans], cnf })
      .setProtectedHeader({ alg, kid, typ: 'JWT' })
      .setIssuer(provisioner)
      .setSubject(sans[0])
      .setAudience(audience)
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + LIFETIME_SECONDS)
      .setJti(randomUUID())
      .sign(key)
  }

  async #key(): Promise<SigningKey> {
    const [bytes, password] = await Promise.all([
      read(this.#keyFile, 'jwkFile'),
      this.#passwordFile && read(this.#passwordFile, 'passwordFile'),
    ])
    if (this.#held?.bytes !== bytes || this.#held.password !== password)
      this.#held = { bytes, password, key: signingKey(this.#options.keyFile, bytes, password) }
    return this.#held.key
  }
}

async function read(file: ChangingFile, field: string): Promise<Buffer> {
  try {
    return await file.read()
  } catch (error) {
    throw unusable(file.path, reasonOf(error), `Put it there, or correct ${field}`)
  }
}

async function signingKey(path: string, bytes: Buffer, password: Buffer | undefined): Promise<SigningKey> {
  const jwk = await plainKey(path, bytes.toString().trim(), password)
  const alg = jwk.kty === 'RSA' ? (jwk.alg ?? 'RS256') : CURVE_ALGORITHMS[jwk.crv ?? '']
  if (jwk.d === undefined || alg === undefined)
    throw unusable(path, 'it holds no private key for signatures', 'Export the private JWK of the provisioner')
  try {
    const key = await importJWK({ ...jwk, ext: false }, alg)
    if (key instanceof Uint8Array) throw new TypeError('it is a secret, not a private key')
    return { key, alg, kid: jwk.kid ?? (await calculateJwkThumbprint(jwk)) }
  } catch {
    // The library's message may quote the key.
    throw unusable(path, `it is not a key for ${alg}`, 'Export the private JWK of the provisioner again')
  }
}

async function plainKey(path: string, text: string, password: Buffer | undefined): Promise<JWK> {
  const object = jsonObject(text)
  const isEncrypted = object === undefined ? text.split('.').length === 5 : typeof object['ciphertext'] === 'string'
  const plain = isEncrypted ? jsonObject(await decrypt(path, text, object, password)) : object
  if (plain && typeof plain['kty'] === 'string') return plain
  throw unusable(path, 'it is neither a JWK nor an encrypted one', 'Export the private JWK of the provisioner')
}

async function decrypt(
  path: string,
  text: string,
  object: ReturnType<typeof jsonObject>,
  password: Buffer | undefined,
): Promise<string> {
  if (!password) throw unusable(path, 'it is encrypted', 'Set passwordFile to the file with its password')
  const secret = new TextEncoder().encode(password.toString().trimEnd())
  try {
    const { plaintext } = object
      ? await flattenedDecrypt(flattened(object), secret, DECRYPTION)
      : await compactDecrypt(text, secret, DECRYPTION)
    return new TextDecoder().decode(plaintext)
  } catch {
    throw unusable(path, 'the password does not open it', 'Correct the password in passwordFile')
  }
}

function flattened(object: Readonly<Record<string, unknown>>) {
  const part = (name: string) => {
    const value = object[name]
    return typeof value === 'string' ? value : ''
  }
  return {
    protected: part('protected'),
    encrypted_key: part('encrypted_key'),
    iv: part('iv'),
    ciphertext: part('ciphertext'),
    tag: part('tag'),
  }
}

function unusable(path: string, reason: string, remedy: string): CAError {
  return caError('unauthenticated', { action: `use the provisioner's key in ${path}`, reason, remedy })
}
