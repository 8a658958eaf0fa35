/** The roots that an operator lists, from all sources: read within bounds, and united per trust domain. */

import type { RootSource } from '../contract/root-source.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { Root } from '../contract/trust-anchor.ts'
import type { Clock } from '../time/clock.ts'
import { type RootReader, summarize } from '../trust/root-reader.ts'

/** Called with all roots of a trust domain that are listed and valid now; `undefined` when no source lists any longer. */
type Take = (trustDomain: string, roots: readonly Root[] | undefined) => void

interface OpenSource {
  readonly opened: Disposable
  /** The last list with a usable root; before the first one, the roots of the sources that it replaces. */
  roots: readonly Root[]
  /** Number of the list that was read last. */
  number: number
  /** Reads the list again when a root in it becomes valid. */
  again: Disposable | undefined
  /** The fault that was reported last: a poll that finds the same one reports nothing. */
  fault: string | undefined
}

/** A list without a usable root changes nothing: it is a fault, not a wish to trust nobody. */
export class ConfiguredRoots implements Disposable {
  readonly #clock: Clock
  readonly #reader: RootReader
  readonly #record: (name: string, event: SecretEvent) => void
  readonly #take: Take
  readonly #sources = new Map<RootSource, OpenSource>()
  readonly #reading = new Set<Promise<void>>()
  /** Calls of {@link use} in progress: meanwhile a trust domain may have only a part of its roots. */
  #replacing = 0

  constructor(clock: Clock, reader: RootReader, record: (name: string, event: SecretEvent) => void, take: Take) {
    this.#clock = clock
    this.#reader = reader
    this.#record = record
    this.#take = take
  }

  /** The trust domains with a source, whether or not it has listed roots yet. */
  trustDomains(): readonly string[] {
    return [...this.#sources.keys()].map(source => source.trustDomain)
  }

  has(trustDomain: string): boolean {
    return this.trustDomains().includes(trustDomain)
  }

  /** Replaces the sources; those that are open already stay open. Resolves when the lists known by then are in force. */
  async use(sources: readonly RootSource[]): Promise<void> {
    const wanted = new Set(sources)
    const before = [...this.#sources.keys()]
    this.#replacing++
    const replaced = before.filter(source => !wanted.has(source))
    const rootsOf = ({ trustDomain }: RootSource) =>
      replaced.flatMap(each => (each.trustDomain === trustDomain ? (this.#sources.get(each)?.roots ?? []) : []))
    const opened = [...wanted]
      .filter(source => !this.#sources.has(source))
      .map(source => [source, rootsOf(source)] as const)
    for (const source of replaced) this.#close(source)
    for (const [source, roots] of opened) this.#open(source, roots)
    await Promise.all(this.#reading)
    this.#replacing--
    for (const trustDomain of new Set([...before, ...wanted].map(source => source.trustDomain)))
      this.#changed(trustDomain)
  }

  [Symbol.dispose](): void {
    for (const source of this.#sources.keys()) this.#close(source)
  }

  #open(source: RootSource, roots: readonly Root[]): void {
    const opened = new DisposableStack()
    const entry: OpenSource = { opened, roots, number: 0, again: undefined, fault: undefined }
    this.#sources.set(source, entry)
    opened.use(
      source.open({
        listed: pems => void this.#track(this.#read(source, entry, pems)),
        failed: reason => {
          if (this.#isOpen(source, entry)) this.#report(source, entry, { kind: 'roots-unavailable', reason })
        },
      }),
    )
  }

  #close(source: RootSource): void {
    const entry = this.#sources.get(source)
    this.#sources.delete(source)
    entry?.again?.[Symbol.dispose]()
    entry?.opened[Symbol.dispose]()
  }

  #isOpen(source: RootSource, entry: OpenSource): boolean {
    return this.#sources.get(source) === entry
  }

  async #track(reading: Promise<void>): Promise<void> {
    this.#reading.add(reading)
    await reading
    this.#reading.delete(reading)
  }

  /** Never rejects. */
  async #read(source: RootSource, entry: OpenSource, pems: readonly string[]): Promise<void> {
    const number = ++entry.number
    const read = await this.#reader.read(pems, this.#clock.now())
    // A later list wins.
    if (!this.#isOpen(source, entry) || number !== entry.number) return
    entry.again?.[Symbol.dispose]()
    entry.again =
      read.validFrom === undefined
        ? undefined
        : this.#clock.at(read.validFrom, () => void this.#track(this.#read(source, entry, pems)))
    const reason = summarize(read.rejected)
    if (read.roots.length === 0) {
      this.#report(source, entry, { kind: 'roots-unavailable', reason: reason || 'it lists no certificate' })
      return
    }
    if (read.rejected.length === 0) entry.fault = undefined
    else this.#report(source, entry, { kind: 'roots-rejected', count: read.rejected.length, reason })
    entry.roots = read.roots
    this.#changed(source.trustDomain)
  }

  #changed(trustDomain: string): void {
    if (this.#replacing > 0) return
    const now = this.#clock.now()
    const listed = [...this.#sources].filter(([source]) => source.trustDomain === trustDomain)
    const valid = listed.flatMap(([, { roots }]) => roots).filter(({ notAfter }) => notAfter > now)
    const roots = new Map(valid.map(root => [root.fingerprint, root]))
    this.#take(trustDomain, listed.length === 0 ? undefined : [...roots.values()])
  }

  #report(source: RootSource, entry: OpenSource, fault: Fault): void {
    const text = `${fault.kind} ${fault.reason}`
    if (entry.fault === text) return
    entry.fault = text
    this.#record(`spiffe://${source.trustDomain}`, { ...fault, source: source.name })
  }
}

type Fault =
  | { readonly kind: 'roots-unavailable'; readonly reason: string }
  | { readonly kind: 'roots-rejected'; readonly count: number; readonly reason: string }
