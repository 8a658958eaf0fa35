/** Holds each identity that at least one source names: the configuration's list, or pods. */
import { isDeepStrictEqual } from 'node:util'
import type { CertificateWish, SecretManager } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { Config } from '../config/load.ts'

export interface HeldIdentity {
  /** The token file for its requests. Default: the CA's token file. */
  readonly tokenFile?: string | undefined
  /** The requested content of its certificate. */
  readonly wish?: CertificateWish | undefined
}

export type HeldIdentities = ReadonlyMap<SpiffeId, HeldIdentity>

/** The configuration's list as a source of identities. */
export function configuredIdentities({ identities }: Pick<Config, 'identities'>): HeldIdentities {
  return new Map(identities.map(({ id, tokenFile, wish }) => [id, { tokenFile, wish }]))
}

/** The sources by rank: if two name a token file or a wish for one identity, the first one's is used. */
const SOURCES = ['configuration', 'kubernetes'] as const
type SourceName = (typeof SOURCES)[number]

/** The identities that are newly held, and the ones that no longer are. */
interface UnionChanges {
  readonly added: readonly SpiffeId[]
  readonly removed: readonly SpiffeId[]
}

export class IdentityUnion {
  readonly #secrets: Pick<SecretManager, 'add' | 'remove'>
  readonly #named = new Map<SourceName, HeldIdentities>()

  constructor(secrets: Pick<SecretManager, 'add' | 'remove'>) {
    this.#secrets = secrets
  }

  /**
   * Replaces all identities of `source`: the manager starts to hold, or holds with another token file or wish, what the sources
   * name together, and releases an identity once no source names it.
   */
  replace(source: SourceName, identities: HeldIdentities): UnionChanges {
    const before = this.#named.get(source) ?? new Map<SpiffeId, HeldIdentity>()
    const wasHeld = new Map<SpiffeId, HeldIdentity | undefined>()
    for (const named of [before, identities]) for (const id of named.keys()) wasHeld.set(id, this.#find(id))
    this.#named.set(source, identities)
    const added: SpiffeId[] = []
    const removed: SpiffeId[] = []
    for (const [id, was] of wasHeld) if (!this.#find(id)) (was ? removed : []).push(id)
    for (const id of removed) this.#secrets.remove(id)
    for (const [id, was] of wasHeld) {
      const now = this.#find(id)
      if (!now || isDeepStrictEqual(was, now)) continue
      const { tokenFile, wish } = now
      this.#secrets.add(id, { ...(tokenFile !== undefined && { tokenFile }), ...(wish && { wish }) })
      if (!was) added.push(id)
    }
    return { added, removed }
  }

  /** Whether a source other than `source` names it. */
  isHeldBeside(source: SourceName, id: SpiffeId): boolean {
    return SOURCES.some(other => other !== source && this.#named.get(other)?.has(id))
  }

  /** The merged identity: the first token file and the first wish among the sources. */
  #find(id: SpiffeId): HeldIdentity | undefined {
    const named = SOURCES.flatMap(source => this.#named.get(source)?.get(id) ?? [])
    if (named.length === 0) return undefined
    const { tokenFile } = named.find(each => each.tokenFile !== undefined) ?? {}
    const { wish } = named.find(each => each.wish !== undefined) ?? {}
    return { tokenFile, wish }
  }
}
