/** The CA's own list of its roots: asked for once for all who want it, polled where the CA does not push, retried after a failure. */

import { type CAClient, CAError } from '../contract/ca-client.ts'
import { asShownCAError } from '../contract/ca-failure.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import { trustDomainProblem } from '../spiffe/spiffe-id.ts'
import { backoff, type RetryPolicy } from '../time/backoff.ts'
import type { Clock } from '../time/clock.ts'
import { withDeadline } from '../time/deadline.ts'
import type { ReadRoots, RootReader } from '../trust/root-reader.ts'
import { isListOfText } from '../x509/pem.ts'

/** A poll comes earlier by up to this share of the interval. */
const POLL_JITTER = 0.1

export interface CARootListOptions {
  readonly ca: Pick<CAClient, 'trustBundle' | 'isListPartial' | 'federatedBundles' | 'subscribe'>
  readonly clock: Clock
  readonly random: () => number
  /** The CA's trust domain. */
  readonly trustDomain: string
  readonly reader: RootReader
  /** How often a CA without `subscribe` is asked, milliseconds. */
  readonly pollMs: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly record: (name: string, event: SecretEvent) => void
  readonly onListed: (read: ReadRoots) => void
  /** Called with the whole lists of other trust domains. */
  readonly onFederated: (bundles: ReadonlyMap<string, readonly string[]>) => Promise<void>
}

export class CARootList implements Disposable {
  readonly #options: CARootListOptions
  readonly #closed = new AbortController()
  #firstAsked: Promise<void> | undefined
  #refreshing: Promise<void> | undefined
  #refreshingAgain: Promise<void> | undefined
  #nextRefresh: Disposable | undefined
  #failures = 0

  constructor(options: CARootListOptions) {
    this.#options = options
  }

  /** Resolves when the CA has listed its roots for the first time, or has failed to, or has none. */
  get firstAsked(): Promise<void> {
    return this.#firstAsked ?? Promise.resolve()
  }

  /** Asks the CA for the first time, once `ready` has resolved. */
  start(ready: Promise<void>): void {
    this.#firstAsked = ready.then(() => this.refresh())
  }

  /** Asks the CA now, once for all who ask meanwhile. Never rejects: a failure is recorded and tried again. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  /** As {@link refresh}, once the CA has reported a change: a list that was asked for before may not have it yet. */
  refreshAgain(): Promise<void> {
    this.#refreshingAgain ??= this.#refreshAgain()
    return this.#refreshingAgain
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new Error('the trust store is closed'))
    this.#nextRefresh?.[Symbol.dispose]()
  }

  async #refreshAgain(): Promise<void> {
    await this.#refreshing
    this.#refreshingAgain = undefined
    await this.refresh()
  }

  async #refresh(): Promise<void> {
    const { ca, clock, reader, onListed } = this.#options
    if (!ca.trustBundle || this.#closed.signal.aborted) return
    try {
      const roots = await this.#ask(signal => ca.trustBundle?.({ signal }) ?? Promise.resolve([]))
      if (!isListOfText(roots)) throw notAList()
      const isWhole = !ca.isListPartial
      const read = await reader.read(roots, clock.now())
      if (this.#closed.signal.aborted) return
      onListed({ ...read, isWhole: isWhole && read.isWhole })
      if (ca.federatedBundles) {
        await this.#refreshFederated()
        if (this.#closed.signal.aborted) return
      }
      this.#failures = 0
      this.#planNext(read.validFrom)
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#retry(error)
    }
  }

  async #refreshFederated(): Promise<void> {
    const { ca, onFederated } = this.#options
    const none: ReadonlyMap<string, readonly string[]> = new Map()
    const bundles = await this.#ask(signal => ca.federatedBundles?.({ signal }) ?? Promise.resolve(none))
    if (!(bundles instanceof Map) || [...bundles].some(([name, roots]) => !isTrustDomain(name) || !isListOfText(roots)))
      throw notAList()
    if (!this.#closed.signal.aborted) await onFederated(bundles)
  }

  async #ask<T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, timeoutMs } = this.#options
    const error = () => new CAError('timeout', `no answer within ${timeoutMs} ms`)
    return await withDeadline({ clock, ms: timeoutMs, error, signal: this.#closed.signal }, call)
  }

  #planNext(validFrom: number | undefined): void {
    const { ca, clock, pollMs, random } = this.#options
    // Nodes that started together do not ask together.
    if (!ca.subscribe) this.#refreshAt(clock.now() + pollMs * (1 - POLL_JITTER * random()))
    else if (validFrom !== undefined) this.#refreshAt(Math.max(validFrom, clock.now() + pollMs))
  }

  #retry(error: unknown): void {
    const { clock, record, retry, random, trustDomain } = this.#options
    const name = `spiffe://${trustDomain}`
    const { code, message, local } = asShownCAError(error)
    const text = `The CA did not list its roots: ${message}`
    record(name, { kind: 'ca-error', code, message: text, ...(local && { local }) })
    const at = clock.now() + backoff(++this.#failures, retry, random())
    record(name, { kind: 'retry-planned', at })
    this.#refreshAt(at)
  }

  #refreshAt(time: number): void {
    this.#nextRefresh?.[Symbol.dispose]()
    this.#nextRefresh = this.#options.clock.at(time, () => void this.refresh())
  }
}

/** A plugin may answer anything. */
function notAList(): CAError {
  return new CAError('bad-response', 'its plugin answered something other than a list of PEM certificates')
}

function isTrustDomain(name: unknown): boolean {
  return typeof name === 'string' && trustDomainProblem(name) === undefined
}
