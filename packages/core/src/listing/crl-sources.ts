/** The revocation lists that the operator gives, at most one source for each trust domain: read when they change, reported when they are unusable. */

import type { RootSource } from '../contract/root-source.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { errorText } from '../text/error-text.ts'
import type { Clock } from '../time/clock.ts'
import { firstUpdate } from '../trust/revocation.ts'
import { type Crl, readCrls } from '../x509/crl.ts'

export interface CrlSourcesOptions {
  readonly clock: Clock
  readonly record: (name: string, event: SecretEvent) => void
  /** Called with all lists of a trust domain whenever they change; without a source there are none. */
  readonly read: (trustDomain: string, crls: readonly Crl[], source: string) => void
}

export class CrlSources implements Disposable {
  readonly #options: CrlSourcesOptions
  readonly #open = new Map<string, OpenSource>()

  constructor(options: CrlSourcesOptions) {
    this.#options = options
  }

  /** Replaces the sources; one that is given again stays open. */
  use(sources: readonly RootSource[]): void {
    const wanted = new Map(sources.map(source => [source.trustDomain, source]))
    for (const [trustDomain, open] of this.#open) {
      const source = wanted.get(trustDomain)
      if (source === open.source) continue
      open[Symbol.dispose]()
      this.#open.delete(trustDomain)
      // The lists of the source that it replaces count until it is read.
      if (source) this.#open.set(trustDomain, new OpenSource(source, open, this.#options))
      else if (open.crls.length > 0) this.#options.read(trustDomain, [], '')
    }
    for (const [trustDomain, source] of wanted)
      if (!this.#open.has(trustDomain)) this.#open.set(trustDomain, new OpenSource(source, NO_LISTS, this.#options))
  }

  [Symbol.dispose](): void {
    for (const open of this.#open.values()) open[Symbol.dispose]()
  }
}

interface Lists {
  readonly crls: readonly Crl[]
  /** The source that they were read from. */
  readonly from: string
}

const NO_LISTS: Lists = { crls: [], from: '' }

/** A file that cannot be read changes nothing: dropping its lists would admit revoked certificates. */
class OpenSource implements Lists, Disposable {
  readonly source: RootSource
  crls: readonly Crl[]
  from: string
  readonly #options: CrlSourcesOptions
  readonly #opened: Disposable
  #outdated: Disposable | undefined
  #isRead = false
  /** The last report. */
  #fault: string | undefined

  constructor(source: RootSource, { crls, from }: Lists, options: CrlSourcesOptions) {
    this.source = source
    this.crls = crls
    this.from = from
    this.#options = options
    this.#opened = source.open({
      listed: texts => this.#read(texts.join('')),
      failed: reason => this.#report(reason),
    })
  }

  [Symbol.dispose](): void {
    this.#opened[Symbol.dispose]()
    this.#outdated?.[Symbol.dispose]()
  }

  #read(text: string): void {
    let crls: readonly Crl[]
    try {
      crls = readCrls(text)
    } catch (error) {
      this.#report(errorText(error))
      return
    }
    this.#fault = undefined
    const { trustDomain, name } = this.source
    const isSame = textOf(crls) === textOf(this.crls)
    if (isSame && this.#isRead) return
    const isNews = !isSame || (crls.length > 0 && name !== this.from)
    this.#isRead = true
    this.crls = crls
    this.from = name
    if (isNews) this.#options.read(trustDomain, crls, name)
    this.#outdated?.[Symbol.dispose]()
    const { clock } = this.#options
    const from = Math.max(...crls.map(({ thisUpdate }) => thisUpdate))
    if (from > clock.now())
      this.#report(`a list in it counts from ${new Date(from).toISOString()} on: verifiers refuse all peers until then`)
    const nextUpdate = firstUpdate(crls)
    if (nextUpdate === undefined) return
    const reason = `a list in it is out of date since ${new Date(nextUpdate).toISOString()}: verifiers refuse all peers until it has a newer one`
    this.#outdated = clock.at(nextUpdate, () => this.#report(reason))
  }

  #report(reason: string): void {
    if (this.#fault === reason) return
    this.#fault = reason
    const { trustDomain, name } = this.source
    this.#options.record(`spiffe://${trustDomain}`, { kind: 'crl-unavailable', source: name, reason })
  }
}

function textOf(crls: readonly Crl[]): string {
  return crls.map(({ pem }) => pem).join('')
}
