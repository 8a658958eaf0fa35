/** The `static` source: a token that is written in the configuration, for tests. */
import {
  type Credential,
  type CredentialContext,
  type CredentialRequest,
  type CredentialSource,
  defineCredentialPlugin,
  MIN_SECRET_LENGTH,
} from '@livery/core/plugin'
import { unexpired } from './token-expiry.ts'
import { readTokenFile } from './token-file.ts'

export const staticToken = defineCredentialPlugin({
  apiVersion: 1,
  name: 'static',
  options: {
    token: {
      type: 'string',
      required: true,
      secret: true,
      problem: problemOf,
      description: 'the token itself; it is never shown',
    },
  },
  create(context, { token }) {
    context.log.warn(
      'The token for the CA is written in the configuration (credentials: static): it is for tests, and is never renewed. Use token-file in production.',
    )
    return new StaticToken(context, token)
  },
})

function problemOf(token: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(token)) return 'is empty or has other characters than a token. Write the token alone'
  return token.length < MIN_SECRET_LENGTH
    ? `has fewer than ${MIN_SECRET_LENGTH} characters. Write the whole token`
    : undefined
}

class StaticToken implements CredentialSource {
  readonly description = 'the token in the configuration'
  readonly #context: CredentialContext
  readonly #token: string

  constructor(context: CredentialContext, token: string) {
    this.#context = context
    this.#token = token
  }

  async get({ tokenFile, signal }: CredentialRequest): Promise<Credential> {
    signal.throwIfAborted()
    const { clock } = this.#context
    if (tokenFile !== undefined) return readTokenFile(tokenFile, clock, signal)
    return unexpired(this.#token, this.description, 'Write a newer one', clock)
  }
}
