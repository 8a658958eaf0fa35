/** The `token-file` source: a token in a file, such as a projected Kubernetes service account token. */
import {
  CAError,
  type Clock,
  type Credential,
  type CredentialRequest,
  type CredentialSource,
  defineCredentialPlugin,
  MIN_SECRET_LENGTH,
  readSmallFile,
  rememberToken,
  UntrustedPathError,
  untilAborted,
} from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { reasonOf } from '../answers/reason-of.ts'
import { SharedRead } from './shared-read.ts'
import { unexpired } from './token-expiry.ts'

export const tokenFile = defineCredentialPlugin({
  apiVersion: 1,
  name: 'token-file',
  options: {},
  create: ({ clock, tokenFile: file }) => new TokenFile(file, clock),
})

/** A token has a few kB. */
const MAX_BYTES = 65_536

class TokenFile implements CredentialSource {
  readonly #file: string | undefined
  readonly #clock: Clock

  constructor(file: string | undefined, clock: Clock) {
    this.#file = file
    this.#clock = clock
  }

  get description(): string {
    return this.#file === undefined ? 'the token of the identity' : `the token in ${this.#file}`
  }

  isConfigured({ tokenFile: own }: Pick<CredentialRequest, 'tokenFile'>): boolean {
    return (own ?? this.#file) !== undefined
  }

  async get({ tokenFile: own, signal }: CredentialRequest): Promise<Credential> {
    const file = own ?? this.#file
    if (file !== undefined) return readTokenFile(file, this.#clock, signal)
    throw caError('unauthenticated', {
      action: 'read a token',
      reason: 'no file is named',
      remedy: 'Set tokenFile under ca or for the identity',
    })
  }
}

/** Reads the token in `path`, without the white space around it; rejects as {@link CredentialSource.get} does. */
export async function readTokenFile(path: string, clock: Clock, signal: AbortSignal): Promise<Credential> {
  const token = (await untilAborted(reads.read(path), signal)).trim()
  if (token === '') throw caErrorOf(path, 'it is empty')
  if (token.length < MIN_SECRET_LENGTH) throw caErrorOf(path, `it has fewer than ${MIN_SECRET_LENGTH} characters`)
  if (!/^[\x21-\x7e]+$/.test(token)) throw caErrorOf(path, 'it has a character that no token has')
  rememberToken(token)
  return unexpired(
    token,
    `the token in ${path}`,
    'See that what renews it still runs (for a projected token: kubelet), and that the clock of this machine is right',
    clock,
  )
}

const reads = new SharedRead(readFile)

async function readFile(path: string): Promise<string> {
  try {
    return (await readSmallFile(path, MAX_BYTES)).toString()
  } catch (error) {
    // Its message ends with another remedy.
    if (error instanceof UntrustedPathError)
      throw new CAError('unauthenticated', `Cannot use the token in ${path}: ${error.message}`, { local: true })
    throw caErrorOf(path, reasonOf(error))
  }
}

function caErrorOf(path: string, reason: string): CAError {
  const remedy = 'Mount a token there, or correct tokenFile'
  return caError('unauthenticated', { action: `use the token in ${path}`, reason, remedy, local: true })
}
