/** Tokens of pods: each is the secret of one caller, replaced when its source has a newer one. */
import { createHash } from 'node:crypto'
import { CAError } from '../contract/ca-client.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import { TokenSecret } from '../secrets/secret-item.ts'
import type { TokenName } from '../secrets/secret-name.ts'
import { errorText } from '../text/error-text.ts'
import type { Clock } from '../time/clock.ts'
import type { SecretPlace } from './file-secret.ts'
import { formatTokenName } from './token-name.ts'

/** The tokens that callers may have, each for its own pod. */
export interface PodTokenSource {
  /** Why there is no such token, after "it …"; `undefined` if there is. */
  refusal(name: TokenName): string | undefined
  /** Why there is no room for one more token at present, after "it …"; `undefined` if there is. */
  noRoom(name: TokenName): string | undefined
  /** Calls `onChange` when another token can be read, or the last read is worth another try; never inside this call. */
  follow(name: TokenName, onChange: () => void): FollowedToken
}

/** Disposing it ends the calls. */
export interface FollowedToken extends Disposable {
  /** `lifeMs`: what is left of its life. Rejects with a `CAError`. */
  read(): Promise<{ readonly token: string; readonly lifeMs: number }>
}

export function tokenPlace(
  name: TokenName,
  tokens: PodTokenSource,
  { clock, vault }: { readonly clock: Clock; readonly vault: KeyVault },
): SecretPlace {
  const text = formatTokenName(name)
  let followed: FollowedToken | undefined
  return {
    label: text,
    waitMs: 0,
    keepMs: 0,
    stamp: () => '',
    watch(look) {
      followed = tokens.follow(name, () => look('event'))
      return followed
    },
    async load() {
      if (!followed) throw new TypeError(`Cannot read ${text}: nobody follows it`)
      const { token, lifeMs } = await followed.read().catch((error: unknown) => {
        throw error instanceof CAError ? error : unreadable(text, error)
      })
      const version = createHash('sha256').update(token).digest('hex')
      const item = new TokenSecret({ name: text, version, token: new SealedKey(vault, Buffer.from(token)) })
      const notBefore = clock.now()
      return { item, life: { notBefore, notAfter: notBefore + lifeMs }, skipped: 0 }
    },
  }
}

function unreadable(text: string, error: unknown): CAError {
  return new CAError('unavailable', `Cannot use ${text}: ${errorText(error)}. It is asked for again.`, { local: true })
}
