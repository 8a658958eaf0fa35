/** The revocation lists of a trust domain: checked against the roots, and served beside them. */

import { createHash } from 'node:crypto'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Root } from '../contract/trust-anchor.ts'
import type { Crl } from '../x509/crl.ts'
import { covers, hasIssued, isNamedBy, issuerOf, judgeOf, type LeafJudge } from './revoked-chain.ts'

/** The lists for a set of roots. */
export interface Revocation {
  /** PEM. */
  readonly crl: Uint8Array
  /** SHA-256, hex. */
  readonly digest: string
}

/** The lists of each trust domain that has had some, or could. */
export class RevocationTable {
  readonly #lists = new Map<string, RevocationLists>()

  of(trustDomain: string): RevocationLists {
    const lists = this.#lists.get(trustDomain) ?? new RevocationLists()
    this.#lists.set(trustDomain, lists)
    return lists
  }
}

export class RevocationLists {
  #crls: readonly Crl[] = []
  /** The name of their source. */
  #source = ''

  /** Takes all lists of the trust domain, from `source`. */
  replace(crls: readonly Crl[], source: string): void {
    this.#crls = crls
    this.#source = source
  }

  /**
   * The lists to serve beside `roots`: lists that one of them has signed, and lists of other issuers, which may be below
   * them. A list in the name of a root that has not signed it, or may not, is left out: it would make every peer be refused.
   */
  for(roots: readonly Root[]): Revocation | undefined {
    const issuers = roots.map(issuerOf)
    const usable = this.#crls.filter(crl => {
      const named = issuers.filter(({ subject }) => subject.equals(crl.issuer))
      return named.length === 0 || named.some(issuer => covers(crl, issuer))
    })
    if (usable.length === 0) return undefined
    const text = usable.map(({ pem }) => pem).join('')
    return { crl: Buffer.from(text), digest: createHash('sha256').update(text).digest('hex') }
  }

  /** The roots among `roots` that their issuer's list names; the issuer is one of them, or the self-signed root itself. */
  revoked(roots: readonly Root[]): readonly Root[] {
    if (this.#crls.length === 0) return []
    const issuers = roots.map(issuerOf)
    return roots.filter((_, index) => {
      const root = issuers[index]
      const lists = root ? this.#crls.filter(list => isNamedBy(list, root)) : []
      return root && lists.some(list => issuers.some(issuer => covers(list, issuer) && hasIssued(issuer, root)))
    })
  }

  /** As {@link judgeOf}; names the file. */
  judgeOf(chainPem: string, root: Root): LeafJudge {
    const source = this.#source
    const judge = this.#crls.length > 0 ? judgeOf(this.#crls, chainPem, root) : undefined
    return serialNumber => {
      const revocation = judge?.(serialNumber)
      return revocation ? `${source} revokes ${revocation}` : undefined
    }
  }

  /** The served lists, and the roots without one: a verifier that has lists refuses all peers under such a root. */
  describe(roots: readonly Root[]): Extract<SecretEvent, { kind: 'crl-changed' }> | undefined {
    if (this.#crls.length === 0) return undefined
    const uncovered = roots.filter(root => !this.#crls.some(crl => covers(crl, issuerOf(root))))
    const nextUpdate = firstUpdate(this.#crls)
    return {
      kind: 'crl-changed',
      lists: this.#crls.length,
      ...(nextUpdate !== undefined && { nextUpdate }),
      uncovered: uncovered.map(({ fingerprint }) => fingerprint),
    }
  }
}

/** When the first of the lists is out of date, milliseconds since the epoch. */
export function firstUpdate(crls: readonly Crl[]): number | undefined {
  const times = crls.flatMap(({ nextUpdate }) => nextUpdate ?? [])
  return times.length === 0 ? undefined : Math.min(...times)
}
