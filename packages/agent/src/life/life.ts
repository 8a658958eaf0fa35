/** The agent's phase, the parts that its end disposes, and the parts that a successor gets. */
import type { SdsServer } from '@livery/sds-server'
import type { Phase } from '../diagnosis/facts.ts'

/** Why an agent ends without a signal: another one serves in its place, or has stopped serving. */
export type Succession = 'succeeded' | 'successor-gone'

/** A part that only one agent can own. */
export interface Owned {
  /** Writes what is pending, and nothing more until `reclaim`: the successor owns it meanwhile. */
  release?(): void | Promise<void>
  reclaim?(): void
  /** Ends it: the successor serves. */
  leave?(): void | PromiseLike<void>
}

export class Life implements AsyncDisposable {
  /** Add each part when it is made: disposal is in reverse order. */
  readonly parts = new AsyncDisposableStack()
  /** Resolved when another agent causes the disposal. */
  readonly succession = Promise.withResolvers<Succession>()
  /** Resolved when every socket is bound, or waits for its path. */
  readonly bound = Promise.withResolvers<void>()
  readonly #owned: Owned[] = []
  #phase: Phase = 'starting'
  #sds: SdsServer | undefined
  #closing: Promise<void> | undefined

  get phase(): Phase {
    return this.#phase
  }

  /** `undefined` until it serves. */
  get sds(): SdsServer | undefined {
    return this.#sds
  }

  serve(sds: SdsServer): void {
    this.#sds = sds
    this.#phase = 'serving'
  }

  drain(): void {
    this.#phase = 'draining'
  }

  /** Serves again, unless it ends. */
  resume(): void {
    if (this.#closing === undefined && this.#sds) this.#phase = 'serving'
  }

  own(part: Owned): void {
    this.#owned.push(part)
  }

  /** Releases in reverse order: a part that writes to another one is released first. */
  async release(): Promise<void> {
    for (const part of this.#owned.toReversed()) await part.release?.()
  }

  reclaim(): void {
    for (const part of this.#owned) part.reclaim?.()
  }

  async leave(): Promise<void> {
    await Promise.all(this.#owned.map(part => part.leave?.()))
  }

  /** Further calls wait for the first. */
  [Symbol.asyncDispose](): Promise<void> {
    this.drain()
    this.#closing ??= this.parts.disposeAsync()
    return this.#closing
  }
}
