/** The names that one stream is subscribed to, and which of them have something to send. */
import type { SecretItem } from '@livery/core'
import type { StreamContext, SubscribedName } from './discovery-protocol.ts'
import { escapePeerName } from './escape-peer-name.ts'
import type { NamedSecret } from './response-content.ts'
import { ledgerName, type Resolution, type SecretView } from './secret-source.ts'

/** Shared by all streams with nothing to send; never written to. */
const NONE_DUE: Subscription[] = []

interface Subscription {
  readonly name: string
  resolution: Resolution
  /** The permission under which the secret is allowed. */
  allowedBy: SecretView | undefined
  watch: Disposable | undefined
  /** The version that the peer has, from this stream or an earlier one. */
  peerVersion: string | undefined
  accepted: string | undefined
  rejected: string | undefined
  isDue: boolean
}

/** Longer than any version that this server sends. */
const MAX_VERSION = 128

/**
 * Holds one entry per name, so that a slow reader costs no memory. A refused name has an entry as well, because it is granted
 * once the rules or the identities change. The budget of the caller bounds all entries.
 */
export class Subscriptions implements Disposable {
  readonly #context: Omit<StreamContext, 'receipts'>
  readonly #entries = new Map<string, Subscription>()
  /** Distinct entries, in the order in which they became due. */
  #due: Subscription[] = NONE_DUE
  #removed: Set<string> | undefined

  /** `wake` is never called during a call of the subscriptions. */
  constructor(context: Omit<StreamContext, 'receipts'>) {
    this.#context = context
  }

  get size(): number {
    return this.#entries.size
  }

  /** How many names have something to send. */
  get due(): number {
    return this.#due.length
  }

  has(name: string): boolean {
    return this.#entries.has(name)
  }

  names(): IterableIterator<string> {
    return this.#entries.keys()
  }

  /** `undefined` for a name that is not asked for, not granted, or has no secret. */
  current(name: string): SecretItem | undefined {
    const entry = this.#entries.get(name)
    return entry && this.#current(entry)
  }

  /** Each name as it is when its turn comes; `only`: those that are this one, or mean it. */
  *list(only?: string): Generator<SubscribedName, void, undefined> {
    for (const entry of this.#entries.values()) {
      const { name, resolution, peerVersion, accepted, rejected } = entry
      const secret = resolution.kind === 'refused' ? undefined : ledgerName(resolution.secret)
      if (only !== undefined && name !== only && secret !== only) continue
      yield {
        name: escapePeerName(name),
        secret,
        access: resolution.kind,
        reason: resolution.kind === 'granted' ? undefined : resolution.reason,
        current: this.#current(entry)?.version,
        sent: peerVersion === undefined ? undefined : escapePeerName(peerVersion),
        accepted,
        rejected,
      }
    }
  }

  /** Call it for each secret of a response that the peer has accepted, or rejected. */
  answered(name: string, version: string, isAccepted: boolean): void {
    const entry = this.#entries.get(name)
    if (!entry) return
    if (!isAccepted) entry.rejected = version
    else {
      entry.accepted = version
      if (entry.rejected === version) entry.rejected = undefined
    }
  }

  /**
   * Makes an answer to `name` due, now or as soon as there is one, unless the peer holds that very version. Reports the name
   * if it is new. Returns whether it can ever be answered with a secret.
   */
  ask(name: string, held?: string): boolean {
    const { connection, record } = this.#context
    const isNew = !this.#entries.has(name)
    const resolution = this.#ask(name, held)
    const isAnswerable = resolution.kind === 'granted' || resolution.kind === 'postponed'
    if (!isNew && isAnswerable) return true
    if (!isAnswerable && !connection.budget.reportsRefusal()) {
      record.report({ kind: 'refused-unnamed' })
      return false
    }
    const escaped = escapePeerName(name)
    const reference = {
      name: escaped,
      ledgerName: resolution.kind === 'refused' ? escaped : ledgerName(resolution.secret),
    }
    if (isNew) record.report({ kind: 'asked', ...reference })
    if (resolution.kind === 'granted') return true
    record.report({ kind: isAnswerable ? 'postponed' : 'refused', ...reference, reason: resolution.reason })
    return isAnswerable
  }

  /** Call it after the permission changed: asks again for refused and unknown names. Returns `false` if the caller lost a granted name. */
  review(): boolean {
    const entries = [...this.#entries.values()]
    const { permission } = this.#context.connection
    if (entries.some(({ resolution }) => resolution.kind !== 'refused' && !permission.mayHave(resolution.secret)))
      return false
    for (const { name, resolution, peerVersion } of entries)
      if (resolution.kind !== 'granted') this.#ask(name, peerVersion)
    return true
  }

  delete(name: string): void {
    const entry = this.#entries.get(name)
    if (entry) this.#drop(entry)
    this.#removed?.delete(name)
  }

  /** Reports to the peer of a Delta stream that there is no such resource. */
  remove(name: string): void {
    this.#removed ??= new Set()
    this.#removed.add(name)
  }

  /** The newest version of everything due. The peer counts as having it from now on. */
  takeDue(): NamedSecret[] {
    const secrets: NamedSecret[] = []
    for (const entry of this.#due) {
      entry.isDue = false
      const item = this.#current(entry)
      if (!item) continue
      entry.peerVersion = item.version
      secrets.push({ name: entry.name, item })
    }
    this.#due = NONE_DUE
    return secrets
  }

  /** The names that were removed. The peer counts as having none of them from now on. */
  takeRemoved(): string[] {
    const names = this.#removed ? [...this.#removed] : []
    this.#removed = undefined
    for (const name of names) {
      const entry = this.#entries.get(name)
      if (entry) entry.peerVersion = undefined
    }
    return names
  }

  [Symbol.dispose](): void {
    for (const { name, watch } of this.#entries.values()) {
      watch?.[Symbol.dispose]()
      this.#context.connection.budget.removeName(name.length)
    }
    this.#entries.clear()
    this.#due = NONE_DUE
    this.#removed = undefined
  }

  #ask(name: string, held: string | undefined): Resolution {
    const present = this.#entries.get(name)
    if (present) this.#request(present)
    const entry = present?.resolution.kind === 'granted' ? present : this.#resolve(name, present)
    const { resolution } = entry
    if (resolution.kind === 'refused') return resolution
    if (held !== undefined) entry.peerVersion = held.length > MAX_VERSION ? '' : held
    const item = this.#current(entry)
    if (item) {
      this.#removed?.delete(name)
      if (item.version !== held) this.#makeDue(entry)
    }
    return resolution
  }

  /** A name that was unknown or refused before can be granted now. */
  #resolve(name: string, before: Subscription | undefined): Subscription {
    if (before) this.#drop(before)
    const { permission, budget } = this.#context.connection
    const resolution = permission.resolve(name, budget)
    budget.addName(name.length)
    const entry: Subscription = {
      name,
      resolution,
      allowedBy: undefined,
      watch: undefined,
      peerVersion: before?.peerVersion,
      accepted: before?.accepted,
      rejected: before?.rejected,
      isDue: false,
    }
    this.#entries.set(name, entry)
    if (resolution.kind === 'refused') return entry
    const { source } = this.#context.shared
    entry.watch = source.watch(resolution.secret, item => this.#onChange(entry, item))
    if (resolution.kind === 'granted' && resolution.secret.kind === 'identity')
      source.request(resolution.secret.identity)
    return entry
  }

  /**
   * Requests a granted identity without a certificate: if the source no longer keeps it, a socket with onDemand has it issued
   * again. Its watch stays, so that it is neither idle nor evicted. May run inside a call of the source to its
   * listeners.
   */
  #request(entry: Subscription): void {
    const { resolution } = entry
    const { permission, budget } = this.#context.connection
    if (resolution.kind !== 'granted' || resolution.secret.kind !== 'identity' || this.#current(entry)) return
    const again = permission.resolve(resolution.secret.identity, budget)
    if (again.kind !== 'refused') {
      entry.resolution = again
      entry.allowedBy = undefined
    }
    if (again.kind === 'granted') this.#context.shared.source.request(resolution.secret.identity)
  }

  /** Also `undefined` for a secret that is no longer allowed: the name may have been granted under other rules. */
  #current(entry: Subscription): SecretItem | undefined {
    const { resolution } = entry
    if (resolution.kind === 'refused') return undefined
    const { connection, shared } = this.#context
    const { permission } = connection
    if (entry.allowedBy !== permission) {
      if (!permission.mayHave(resolution.secret)) return undefined
      entry.allowedBy = permission
    }
    return shared.source.current(resolution.secret)
  }

  #drop(entry: Subscription): void {
    entry.watch?.[Symbol.dispose]()
    this.#entries.delete(entry.name)
    this.#context.connection.budget.removeName(entry.name.length)
    this.#makeUndue(entry)
  }

  #makeDue(entry: Subscription): void {
    if (entry.isDue) return
    entry.isDue = true
    // An array literal of one element has no spare capacity, and most streams need no more.
    if (this.#due.length === 0) this.#due = [entry]
    else this.#due.push(entry)
  }

  #makeUndue(entry: Subscription): void {
    if (!entry.isDue) return
    entry.isDue = false
    this.#due = this.#due.filter(due => due !== entry)
  }

  #onChange(entry: Subscription, item: SecretItem | undefined): void {
    if (this.#entries.get(entry.name) !== entry) return
    if (item) {
      this.#removed?.delete(entry.name)
      if (item.version !== entry.peerVersion) this.#makeDue(entry)
    } else {
      this.#makeUndue(entry)
      if (entry.peerVersion !== undefined) this.remove(entry.name)
      this.#request(entry)
    }
    if (entry.isDue || this.#removed?.has(entry.name)) this.#context.wake()
  }
}
