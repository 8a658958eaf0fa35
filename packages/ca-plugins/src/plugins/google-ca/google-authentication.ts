/** Authenticates calls to Google with a token from the configured credentials or from Google's library. */
import { CAError, ChangingFile, type CredentialRequest, type CredentialSource, untilAborted } from '@livery/core/plugin'
import type { AuthClient, GoogleAuth } from 'google-auth-library'
import { caError } from '../../answers/ca-error.ts'
import { Closable } from '../../transport/closable.ts'
import type { GoogleAuthPackage } from './google-packages.ts'

export interface Authentication extends Disposable {
  /** The remedy if the service does not accept the token; no period at the end. */
  readonly remedy: string
  /** Rejects with a `CAError`, or with the signal's reason. */
  authenticate(call: CredentialRequest): Promise<CallCredentials>
  /** A token was refused: the next call gets a new one. */
  forget(): void
}

/** The credentials of one call. */
interface CallCredentials {
  readonly headers: Readonly<Record<string, string>>
  /** Secrets that must not appear in a message. */
  readonly secrets: readonly string[]
}

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const MAX_FILE_BYTES = 65_536
/** Error codes of the operating system, and of TLS. */
const NETWORK_ERROR = /^(?!ERR_)E[A-Z_]+$|(^|_)CERT(_|$)|^ERR_(SSL|TLS)_/

/** Tokens from `credentials`, asked at each call: an identity may have its own. */
export function sourceAuthentication(credentials: CredentialSource): Authentication {
  return {
    remedy: `Check the audience and the grants of ${credentials.description}`,
    async authenticate(call) {
      const { token } = await untilAborted(credentials.get(call), call.signal)
      return { headers: { authorization: `Bearer ${token}` }, secrets: [token] }
    },
    forget() {},
    [Symbol.dispose]() {},
  }
}

interface LibraryAuthenticationOptions {
  readonly auth: GoogleAuthPackage
  /** Absent: wherever Google's library finds credentials (`GOOGLE_APPLICATION_CREDENTIALS`, gcloud, metadata server). */
  readonly credentialsFile?: string
  /** Spares the library the search for it. */
  readonly projectId: string
  /** The service, as the token's audience. */
  readonly url: string
}

/** Tokens that Google's library gets, and renews some minutes before they expire. */
export class LibraryAuthentication implements Authentication {
  readonly remedy: string
  readonly #options: LibraryAuthenticationOptions
  readonly #file: ChangingFile | undefined
  readonly #closing = new Closable('for a token')
  #default: GoogleAuth | undefined
  #fromFile: { readonly bytes: Buffer; readonly client: AuthClient } | undefined

  constructor(options: LibraryAuthenticationOptions) {
    const { credentialsFile } = options
    this.#options = options
    this.#file = credentialsFile === undefined ? undefined : new ChangingFile(credentialsFile, MAX_FILE_BYTES)
    this.remedy = credentialsFile
      ? `Check the provider and the grants of ${credentialsFile}`
      : "Check the grants of the credentials that Google's library found, or set credentialsFile"
  }

  async authenticate(call: { readonly tokenFile?: string; readonly signal: AbortSignal }): Promise<CallCredentials> {
    if (call.tokenFile !== undefined)
      throw this.#problem('an identity has its own tokenFile', 'Set credentials, and tokenFile under ca')
    const signal = this.#closing.until(call.signal)
    try {
      return await untilAborted(this.#requestHeaders(), signal)
    } catch (error) {
      if (signal.aborted && error === signal.reason) throw error
      throw error instanceof CAError ? error : this.#failure(error)
    }
  }

  forget(): void {
    this.#default = undefined
    this.#fromFile = undefined
  }

  [Symbol.dispose](): void {
    this.#closing.close()
    this.forget()
  }

  async #requestHeaders(): Promise<CallCredentials> {
    const client = await this.#client()
    const headers = Object.fromEntries(await client.getRequestHeaders(this.#options.url))
    const token = headers['authorization']?.replace(/^Bearer /i, '')
    // The library turns an answer without a token into this word.
    if (!token || token === 'undefined') throw this.#problem('it gives no token', 'Use other credentials')
    return { headers, secrets: [token] }
  }

  #client(): Promise<AuthClient> {
    if (this.#file) return this.#clientFromFile(this.#file)
    this.#default ??= new this.#options.auth.GoogleAuth({
      scopes: SCOPE,
      projectId: this.#options.projectId,
      clientOptions: { transporterOptions: { signal: this.#closing.signal } },
    })
    return this.#default.getClient()
  }

  /** Returns the same client, with its token, while the file is the same. */
  async #clientFromFile(file: ChangingFile): Promise<AuthClient> {
    const bytes = await file.read()
    if (this.#fromFile?.bytes === bytes) return this.#fromFile.client
    const client = this.#parse(bytes)
    this.#fromFile = { bytes, client }
    return client
  }

  #parse(bytes: Buffer): AuthClient {
    const json = parseObject(bytes)
    const { IdentityPoolClient, JWT } = this.#options.auth
    const transporterOptions = { signal: this.#closing.signal }
    switch (json?.['type']) {
      case 'external_account': {
        const client = new IdentityPoolClient({
          ...json,
          audience: String(json['audience']),
          subject_token_type: String(json['subject_token_type']),
          transporterOptions,
        })
        client.scopes = SCOPE
        return client
      }
      case 'service_account': {
        const { client_email: email, private_key: key } = json
        return new JWT({ email: String(email), key: String(key), scopes: [SCOPE], transporterOptions })
      }
      default:
        throw this.#problem('it is not JSON of type external_account or service_account', 'Create a new one')
    }
  }

  /** The library's errors carry the request with its token: only harmless parts are taken from them. */
  #failure(error: unknown): CAError {
    const { status, code } = Object(error)
    const text = error instanceof Error ? error.message : ''
    if (typeof status === 'number') {
      const [, reason] = /\bError code (\w{1,60})/.exec(text) ?? []
      const why = `the token service answered ${status}${reason === undefined ? '' : ` ${reason}`}`
      return status >= 500 || status === 429
        ? this.#problem(why, 'It is asked again', 'unavailable')
        : this.#problem(why, 'Check the provider, its audience and the subject token')
    }
    if (code === 'ENOENT' || code === 'EACCES')
      return this.#problem(
        `${Object(error).path ?? 'a file'} cannot be read (${code})`,
        'Mount it, or correct the path',
      )
    if (NETWORK_ERROR.test(String(code)))
      return this.#problem(`the token service cannot be reached (${code})`, 'Check the network', 'unavailable')
    if (/default credentials/.test(text))
      return this.#problem('there are none on this machine', 'Set credentialsFile or credentials')
    return this.#problem("Google's library cannot use them", 'Check the file against the documentation of Google')
  }

  #problem(reason: string, remedy: string, code: 'unauthenticated' | 'unavailable' = 'unauthenticated'): CAError {
    const { credentialsFile } = this.#options
    const which = credentialsFile ? `the credentials in ${credentialsFile}` : "Google's default credentials"
    return caError(code, { action: `use ${which}`, reason, remedy })
  }
}

function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    // The parser's message quotes the content, which may be a key.
    return undefined
  }
}
