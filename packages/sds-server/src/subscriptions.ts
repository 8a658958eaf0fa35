/** The names that one stream is subscribed to, and which of them have something to send. */
import type { SecretItem, SecretName } from '@livery/core'

/** Whether the caller of a stream may have a name. */
export type Resolution =
  | { readonly kind: 'granted'; readonly secret: SecretName }
  /** Allowed, but nothing is known of it; it is answered if it becomes known. */
  | { readonly kind: 'unknown'; readonly secret: SecretName; readonly reason: string }
  | { readonly kind: 'refused'; readonly reason: string }

/** What one caller may see of the secrets. */
export interface SecretView {
  /** Decides on a name; an allowed identity is added here where identities are served on demand. */
  resolve(name: string): Resolution
  /** The names of all that the caller may have, the bundle first; throws a `StreamRefusal` if they are over `limit`. */
  everything(limit: number): readonly string[]
  current(secret: SecretName): SecretItem | undefined
  subscribe(secret: SecretName, listener: (item: SecretItem | undefined) => void): Disposable
}

/** A secret to be sent, under the name that was asked for. */
export interface NamedSecret {
  readonly name: string
  readonly item: SecretItem
}

interface Subscription {
  readonly resolution: Resolution
  readonly watch: Disposable | undefined
  /** The version that the peer has, from this stream or an earlier one. */
  peerVersion: string | undefined
}

/** Keeps one entry a name, whatever happens in between, so that a slow reader costs no memory. */
export class Subscriptions implements Disposable {
  readonly #view: SecretView
  readonly #wake: () => void
  readonly #entries = new Map<string, Subscription>()
  readonly #due = new Set<string>()
  readonly #removed = new Set<string>()

  /** Calls `wake` when the source made something due; never during a call of this object. */
  constructor(view: SecretView, wake: () => void) {
    this.#view = view
    this.#wake = wake
  }

  get size(): number {
    return this.#entries.size
  }

  /** How many names have something to send. */
  get due(): number {
    return this.#due.size
  }

  has(name: string): boolean {
    return this.#entries.has(name)
  }

  names(): IterableIterator<string> {
    return this.#entries.keys()
  }

  /** Makes an answer to `name` due, now or as soon as there is one, unless the peer holds that very version. */
  ask(name: string, held?: string): Resolution {
    const present = this.#entries.get(name)
    const entry = present?.resolution.kind === 'granted' ? present : this.#resolve(name, present)
    const { resolution } = entry
    if (resolution.kind === 'refused') return resolution
    if (held !== undefined) entry.peerVersion = held
    const item = this.#view.current(resolution.secret)
    if (item) {
      this.#removed.delete(name)
      if (item.version !== held) this.#due.add(name)
    }
    return resolution
  }

  delete(name: string): void {
    this.#entries.get(name)?.watch?.[Symbol.dispose]()
    this.#entries.delete(name)
    this.#due.delete(name)
    this.#removed.delete(name)
  }

  /** Tells the peer of a Delta stream that there is no such resource. */
  remove(name: string): void {
    this.#removed.add(name)
  }

  /** The newest version of everything due, which is from now on what the peer has. */
  takeDue(): NamedSecret[] {
    const secrets: NamedSecret[] = []
    for (const name of this.#due) {
      const entry = this.#entries.get(name)
      if (!entry || entry.resolution.kind === 'refused') continue
      const item = this.#view.current(entry.resolution.secret)
      if (!item) continue
      entry.peerVersion = item.version
      secrets.push({ name, item })
    }
    this.#due.clear()
    return secrets
  }

  takeRemoved(): string[] {
    const names = [...this.#removed]
    this.#removed.clear()
    return names
  }

  [Symbol.dispose](): void {
    for (const entry of this.#entries.values()) entry.watch?.[Symbol.dispose]()
    this.#entries.clear()
    this.#due.clear()
    this.#removed.clear()
  }

  /** What was unknown or refused before may be there by now. */
  #resolve(name: string, before: Subscription | undefined): Subscription {
    before?.watch?.[Symbol.dispose]()
    const resolution = this.#view.resolve(name)
    const watch =
      resolution.kind === 'refused'
        ? undefined
        : this.#view.subscribe(resolution.secret, item => this.#onChange(name, item))
    const entry: Subscription = { resolution, watch, peerVersion: before?.peerVersion }
    this.#entries.set(name, entry)
    return entry
  }

  #onChange(name: string, item: SecretItem | undefined): void {
    const entry = this.#entries.get(name)
    if (!entry) return
    if (item) {
      this.#removed.delete(name)
      if (item.version !== entry.peerVersion) this.#due.add(name)
    } else {
      this.#due.delete(name)
      if (entry.peerVersion !== undefined) this.#removed.add(name)
      entry.peerVersion = undefined
    }
    if (this.#due.has(name) || this.#removed.has(name)) this.#wake()
  }
}
