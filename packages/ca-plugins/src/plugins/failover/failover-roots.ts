/** The roots of all CAs of a list, at all times: certificates of each may be in use. */

import {
  type CAChange,
  CAError,
  type CAMember,
  ChangingFile,
  MAX_ROOT_LENGTH,
  MAX_ROOTS,
  splitCertificates,
  withDeadline,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { reasonOf } from '../../answers/reason-of.ts'
import type { FailoverOptions } from './failover-options.ts'

type Parts = Pick<FailoverOptions, 'members' | 'clock' | 'rootsFile' | 'rootsPollMs' | 'timeoutMs'>

/** The wait before a CA that did not answer is asked again. */
const MISSED_MS = 30_000
const POLL_MS = 5 * 60_000
const MAX_FILE_BYTES = 1_048_576

export class FailoverRoots implements Disposable {
  readonly #options: Parts
  readonly #file: ChangingFile | undefined
  /** Per CA: its last list; for a CA without a list, all roots that came with its certificates. */
  readonly #known: Map<CAMember, ReadonlySet<string>> = new Map()
  readonly #listeners = new Set<(change: CAChange) => void>()
  readonly #subscriptions = new DisposableStack()
  #next: Disposable | undefined

  constructor(options: Parts) {
    this.#options = options
    if (options.rootsFile !== undefined) this.#file = new ChangingFile(options.rootsFile, MAX_FILE_BYTES)
  }

  /**
   * A CA that does not answer keeps the roots that it listed last. Rejects if no CA that lists its roots answers, or if
   * the file cannot be read.
   */
  async all(signal: AbortSignal): Promise<readonly string[]> {
    const { members } = this.#options
    const fromFile = await this.#readFile()
    const listing = members.filter(({ client }) => client.trustBundle)
    const answers = await Promise.allSettled(listing.map(member => this.ask(member, signal)))
    signal.throwIfAborted()
    const failures = answers.filter(one => one.status === 'rejected')
    this.#plan(failures.length > 0)
    if (failures[0] && failures.length === listing.length) throw failures[0].reason
    return [...new Set([...members.flatMap(member => [...(this.#known.get(member) ?? [])]), ...fromFile])]
  }

  /** Whether anything is known of the CA's roots. */
  knows(member: CAMember): boolean {
    return this.#known.has(member)
  }

  /** The current list of a CA that has one. */
  async ask(member: CAMember, signal: AbortSignal): Promise<readonly string[]> {
    const { clock, timeoutMs } = this.#options
    const error = () => new CAError('timeout', `${member.name} did not list its roots within ${timeoutMs} ms.`)
    const roots = await withDeadline({ clock, ms: timeoutMs, error, signal }, ending =>
      Promise.resolve(member.client.trustBundle?.({ signal: ending }) ?? []),
    )
    // One more than core accepts, so that core sees that the list is too long.
    const bounded = roots.slice(0, MAX_ROOTS + 1)
    this.#known.set(member, new Set(bounded))
    return bounded
  }

  /** Records the roots that came with an accepted certificate of a CA without a list. */
  learn(member: CAMember, roots: readonly string[]): void {
    const known = this.#known.get(member) ?? new Set()
    const news = roots.slice(0, MAX_ROOTS).filter(root => !known.has(root) && root.length <= MAX_ROOT_LENGTH)
    const taken = news.slice(0, Math.max(0, MAX_ROOTS - known.size))
    if (taken.length === 0) return
    this.#known.set(member, new Set([...known, ...taken]))
    this.#notify({ kind: 'roots' })
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#listeners.add(listener)
    const subscriptions = this.#subscriptions.use(new DisposableStack())
    subscriptions.defer(() => this.#listeners.delete(listener))
    for (const { client } of this.#options.members) {
      const subscription = client.subscribe?.(listener)
      if (subscription) subscriptions.use(subscription)
    }
    return subscriptions
  }

  [Symbol.dispose](): void {
    this.#next?.[Symbol.dispose]()
    this.#subscriptions[Symbol.dispose]()
  }

  async #readFile(): Promise<readonly string[]> {
    if (!this.#file) return []
    try {
      return splitCertificates((await this.#file.read()).toString())
    } catch (error) {
      throw caError('unavailable', {
        action: `read roots ${this.#file.path}`,
        reason: reasonOf(error),
        remedy: 'Correct the path',
        cause: error,
      })
    }
  }

  /** Listeners are notified to fetch again; core does not poll a client that has `subscribe`. */
  #plan(isMissing: boolean): void {
    const { clock, members, rootsPollMs: pollMs = POLL_MS } = this.#options
    this.#next?.[Symbol.dispose]()
    const polls = this.#file || members.some(({ client }) => client.trustBundle && !client.subscribe)
    if (this.#listeners.size === 0 || !(isMissing || polls)) return
    const at = clock.now() + (isMissing ? Math.min(MISSED_MS, pollMs) : pollMs)
    this.#next = clock.at(at, () => this.#notify({ kind: 'roots' }))
  }

  #notify(change: CAChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}
