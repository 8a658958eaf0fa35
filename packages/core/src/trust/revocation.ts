/** The revocation lists that the operator gives: checked against the roots, and served beside them. */

import { createHash } from 'node:crypto'
import type { RootSource } from '../contract/root-source.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Root } from '../contract/trust-anchor.ts'
import { errorText } from '../text/error-text.ts'
import type { Clock } from '../time/clock.ts'
import { type Crl, readCrls } from '../x509/crl.ts'
import { covers, hasIssued, isNamedBy, issuerOf, judgeOf, type LeafJudge } from './revoked-chain.ts'

/** The lists for a set of roots. */
export interface Revocation {
  /** PEM. */
  readonly crl: Uint8Array
  /** SHA-256, hex. */
  readonly digest: string
}

export interface RevocationListsOptions {
  readonly clock: Clock
  /** `spiffe://…` of the trust domain. */
  readonly name: string
  readonly record: (name: string, event: SecretEvent) => void
  /** Called when the lists are others than before. */
  readonly onChange: () => void
}

export interface RevocationTableOptions extends Pick<RevocationListsOptions, 'clock' | 'record'> {
  /** Called when the lists of a trust domain are others than before. */
  readonly onChange: (trustDomain: string) => void
}

/** The lists of each trust domain that has had some, or could. */
export class RevocationTable implements Disposable {
  readonly #options: RevocationTableOptions
  readonly #lists = new Map<string, RevocationLists>()

  constructor(options: RevocationTableOptions) {
    this.#options = options
  }

  /** Replaces the sources; a trust domain without one has no lists. */
  use(sources: readonly RootSource[]): void {
    const wanted = new Map(sources.map(source => [source.trustDomain, source]))
    for (const trustDomain of new Set([...this.#lists.keys(), ...wanted.keys()]))
      this.of(trustDomain).use(wanted.get(trustDomain))
  }

  of(trustDomain: string): RevocationLists {
    const present = this.#lists.get(trustDomain)
    if (present) return present
    const { clock, record, onChange } = this.#options
    const lists = new RevocationLists({
      clock,
      record,
      name: `spiffe://${trustDomain}`,
      onChange: () => onChange(trustDomain),
    })
    this.#lists.set(trustDomain, lists)
    return lists
  }

  [Symbol.dispose](): void {
    for (const lists of this.#lists.values()) lists[Symbol.dispose]()
  }
}

/** A file that cannot be read changes nothing: without its lists, those that they name would be let in. */
export class RevocationLists implements Disposable {
  readonly #options: RevocationListsOptions
  #source: RootSource | undefined
  #opened: Disposable | undefined
  #crls: readonly Crl[] = []
  #outdated: Disposable | undefined
  /** The last report. */
  #fault: string | undefined

  constructor(options: RevocationListsOptions) {
    this.#options = options
  }

  /** When the first of the lists is out of date, milliseconds since the epoch. */
  get nextUpdate(): number | undefined {
    const times = this.#crls.flatMap(({ nextUpdate }) => nextUpdate ?? [])
    return times.length === 0 ? undefined : Math.min(...times)
  }

  /** Replaces the source; without one there are no lists. */
  use(source: RootSource | undefined): void {
    if (source === this.#source) return
    this.#opened?.[Symbol.dispose]()
    this.#outdated?.[Symbol.dispose]()
    this.#source = source
    this.#opened = source?.open({
      listed: texts => this.#read(source, texts.join('')),
      failed: reason => this.#report(source, reason),
    })
    if (source || this.#crls.length === 0) return
    this.#crls = []
    this.#options.onChange()
  }

  /**
   * The lists that belong beside `roots`: those that one of them has signed, and those of other issuers, which may be below
   * them. A list in the name of a root that has not signed it, or may not, is left out: with it every peer would be refused.
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

  /** Those of `roots` that a list of their issuer names; the issuer is one of them, of a self-signed root the root itself. */
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
    const source = this.#source?.name
    const judge = this.#crls.length > 0 ? judgeOf(this.#crls, chainPem, root) : undefined
    return serialNumber => {
      const revocation = judge?.(serialNumber)
      return revocation ? `${source} revokes ${revocation}` : undefined
    }
  }

  /** Reports what is served, and which of `roots` has no list: a verifier that has lists refuses all peers under such a root. */
  report(roots: readonly Root[]): void {
    if (this.#crls.length === 0) return
    const uncovered = roots.filter(root => !this.#crls.some(crl => covers(crl, issuerOf(root))))
    const { nextUpdate } = this
    this.#options.record(this.#options.name, {
      kind: 'crl-changed',
      lists: this.#crls.length,
      ...(nextUpdate !== undefined && { nextUpdate }),
      uncovered: uncovered.map(({ fingerprint }) => fingerprint),
    })
  }

  [Symbol.dispose](): void {
    this.#opened?.[Symbol.dispose]()
    this.#outdated?.[Symbol.dispose]()
  }

  #read(source: RootSource, text: string): void {
    let crls: readonly Crl[]
    try {
      crls = readCrls(text)
    } catch (error) {
      this.#report(source, errorText(error))
      return
    }
    this.#fault = undefined
    if (crls.map(({ pem }) => pem).join('') === this.#crls.map(({ pem }) => pem).join('')) return
    this.#crls = crls
    this.#options.onChange()
    this.#outdated?.[Symbol.dispose]()
    const from = Math.max(...crls.map(({ thisUpdate }) => thisUpdate))
    if (from > this.#options.clock.now())
      this.#report(
        source,
        `a list in it counts from ${new Date(from).toISOString()} on: verifiers refuse all peers until then`,
      )
    const { nextUpdate } = this
    if (nextUpdate === undefined) return
    const reason = `a list in it is out of date since ${new Date(nextUpdate).toISOString()}: verifiers refuse all peers until it has a newer one`
    this.#outdated = this.#options.clock.at(nextUpdate, () => this.#report(source, reason))
  }

  #report(source: RootSource, reason: string): void {
    if (this.#fault === reason) return
    this.#fault = reason
    this.#options.record(this.#options.name, { kind: 'crl-unavailable', source: source.name, reason })
  }
}
