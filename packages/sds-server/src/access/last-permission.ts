/** The permission of a caller while its socket closes: only the names granted before, in their newest version. */
import type { SecretName } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { Resolution, SecretView } from '../protocol/secret-source.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'

export class LastPermission implements SecretView {
  readonly #before: SecretView
  readonly #known: ReadonlySet<SpiffeId>

  /** `known`: the identities known at this moment; a later one was granted to nobody. */
  constructor(before: SecretView, known: ReadonlySet<SpiffeId>) {
    this.#before = before
    this.#known = known
  }

  /** Never throws, because a stream can call it while the source reports a change. */
  resolve(): Resolution {
    return { kind: 'refused', reason: 'this socket is closing: connect again' }
  }

  everything(): never {
    throw new StreamRefusal('unavailable', 'this socket is closing: connect again')
  }

  ownIdentities(): readonly SpiffeId[] {
    return this.#before.ownIdentities().filter(identity => this.#known.has(identity))
  }

  mayHave(secret: SecretName): boolean {
    return this.#before.mayHave(secret) && (secret.kind !== 'identity' || this.#known.has(secret.identity))
  }
}
