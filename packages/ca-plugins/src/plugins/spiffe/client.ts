/** The client of the `spiffe` plugin: the current identities and roots that a Workload API pushes. */
import { type ServiceError, status } from '@grpc/grpc-js'
import {
  after,
  type CAChange,
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  privateKeyToPem,
  type SpiffeId,
  untilAborted,
} from '@livery/core/plugin'
import type { Answer } from '../../answers/certificate-chain.ts'
import { Closable } from '../../transport/closable.ts'
import { workloadFailure } from './errors.ts'
import { WorkloadChannel } from './workload-channel.ts'
import { type StreamFailure, WorkloadStream } from './workload-stream.ts'
import {
  type Bundles,
  certificateToPem,
  readBundles,
  readSvidUpdate,
  type Svid,
  type SvidUpdate,
  wipe,
} from './workload-update.ts'

/** The most identities that a message names; an upstream may have thousands. */
const MAX_NAMES = 10

/** Callers may invent names. */
const MAX_MISSED = 10_000

/** SPIRE pushes a changed entry as gone, and a moment later with its new certificate. */
const RETURN_MS = 1_000
/** The fault that is not reported yet. */
const MAY_RETURN = 'no identity for a moment'

/** Holds the keys of the newest update; wipes them when another comes or the stream breaks. */
export class SpiffeClient implements CAClient {
  readonly #context: CAContext
  readonly #address: string
  readonly #channel: WorkloadChannel
  readonly #svids: WorkloadStream<SvidUpdate>
  readonly #bundles: WorkloadStream<Bundles>
  readonly #listeners = new Set<(change: CAChange) => void>()
  readonly #closing: Closable
  #update: SvidUpdate | undefined
  #allRoots: Bundles = new Map()
  /** Identities requested in vain: their callers are notified when they come. */
  readonly #missed = new Set<SpiffeId>()
  /** Identities missing from pushes, with the time until which they count as present; the first to leave first. */
  readonly #leaving = new Map<SpiffeId, number>()
  #leaveTimer: Disposable | undefined
  /** Resolved when an identity is back, has left, or the stream breaks. */
  #news = Promise.withResolvers<void>()
  #lastFault = ''

  /** `address`: `unix:///path` or `tcp://ip:port`. `random` gives a number in [0, 1). */
  constructor(context: CAContext, address: string, timeoutMs: number, random = Math.random) {
    const { clock } = context
    this.#context = context
    this.#address = address
    this.#closing = new Closable(`the Workload API at ${address}`)
    this.#channel = new WorkloadChannel(address)
    this.#svids = new WorkloadStream({
      clock,
      random,
      timeoutMs,
      open: () => this.#channel.open('FetchX509SVID'),
      read: bytes => readSvidUpdate(bytes, answerOf(address, 'identities'), context.vault),
      errorOf: cause => workloadFailure(address, 'identities', cause),
      onMessage: update => this.#take(update),
      onBroken: (error, retryMs) => this.#reportBroken(error, retryMs),
    })
    this.#bundles = new WorkloadStream({
      clock,
      random,
      timeoutMs,
      open: () => this.#channel.open('FetchX509Bundles'),
      read: bytes => readBundles(bytes, answerOf(address, 'bundles')),
      errorOf: cause => withoutBundles(workloadFailure(address, 'bundles', cause), cause),
      onMessage: bundles => this.#takeBundles(bundles),
      // Faults of the stream of identities are logged, and it brings the roots too.
      onBroken: error => this.#context.log.debug(error.message),
    })
  }

  async issue({ identity, connectWithinMs, signal }: CertificateRequest): Promise<IssuedCertificate> {
    try {
      const { chain, roots, privateKey, hint } = await this.#svidOf(identity, signal, connectWithinMs)
      const pem = privateKey.open(der => privateKeyToPem(der, 'PRIVATE KEY'))
      return { chain: chain.map(certificateToPem), roots, privateKey: pem, ...(hint !== '' && { hint }) }
    } catch (error) {
      if (!signal.aborted) this.#miss(identity)
      throw error
    }
  }

  async #svidOf(identity: SpiffeId, signal: AbortSignal, connectWithinMs?: number): Promise<Svid> {
    for (;;) {
      const { svids } = await this.#svids.current(signal, connectWithinMs)
      const svid = svids.get(identity)
      if (svid) return svid
      if (!this.#leaving.has(identity)) throw this.#notAmong(identity, [...svids.keys()])
      await untilAborted(this.#news.promise, signal)
    }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const [svids, bundles] = await Promise.allSettled([this.#svids.current(signal), this.#bundles.current(signal)])
    signal.throwIfAborted()
    if (svids.status === 'rejected' && bundles.status === 'rejected') throw svids.reason
    const roots = this.#rootsOf(this.#context.trustDomain)
    if (roots.length > 0) return roots
    const known = [...this.#allRoots.keys()].join(', ')
    throw new CAError(
      'bad-response',
      `The Workload API at ${this.#address} lists no roots of the trust domain ${this.#context.trustDomain}, but of: ${known || 'none'}. Set trustDomain to the one that it serves.`,
      { retryable: false },
    )
  }

  async federatedBundles({ signal }: { readonly signal: AbortSignal }): Promise<Bundles> {
    // A failure does not matter here: the roots known so far are the answer.
    await this.#bundles.current(signal).catch(() => signal.throwIfAborted())
    return new Map([...this.#allRoots].filter(([trustDomain]) => trustDomain !== this.#context.trustDomain))
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#closing.signal.throwIfAborted()
    this.#listeners.add(listener)
    this.#svids.start()
    this.#bundles.start()
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.close()
    this.#listeners.clear()
    this.#leaveTimer?.[Symbol.dispose]()
    this.#svids.close(this.#closing.signal.reason)
    this.#bundles.close(this.#closing.signal.reason)
    this.#channel.close()
    if (this.#update) wipe(this.#update)
  }

  /** Keeps only the latest: core asks again for the others. */
  #miss(identity: SpiffeId): void {
    this.#missed.delete(identity)
    this.#missed.add(identity)
    const [oldest] = this.#missed
    if (this.#missed.size > MAX_MISSED && oldest !== undefined) this.#missed.delete(oldest)
  }

  #take(update: SvidUpdate): void {
    const before = this.#update
    const rootsBefore = this.#roots()
    this.#update = update
    this.#lastFault = ''
    this.#context.log.debug(`The Workload API gives ${update.svids.size} identities`)
    this.#notifyRoots(rootsBefore)
    const found = [...this.#missed].filter(identity => update.svids.has(identity))
    for (const identity of found) this.#missed.delete(identity)
    this.#followLeaving(before, update)
    const identities = [...new Set([...changedIdentities(before, update), ...found])]
    if (identities.length > 0) this.#notify({ kind: 'certificates', identities })
    if (before) wipe(before)
  }

  #followLeaving(before: SvidUpdate | undefined, { svids }: SvidUpdate): void {
    for (const identity of this.#leaving.keys()) if (svids.has(identity)) this.#leaving.delete(identity)
    const until = this.#context.clock.now() + RETURN_MS
    for (const identity of before?.svids.keys() ?? []) if (!svids.has(identity)) this.#leaving.set(identity, until)
    this.#leave()
  }

  /** Reports the identities whose time is over. */
  #leave(): void {
    const { clock } = this.#context
    const now = clock.now()
    // A clock that was set back must not prolong the wait.
    const isOver = (until: number) => until <= now || until > now + RETURN_MS
    const identities = [...this.#leaving].filter(([, until]) => isOver(until)).map(([identity]) => identity)
    for (const identity of identities) this.#leaving.delete(identity)
    const [next] = this.#leaving.values()
    this.#leaveTimer?.[Symbol.dispose]()
    this.#leaveTimer = next === undefined ? undefined : after(clock, next - now, () => this.#leave())
    if (identities.length > 0) this.#notify({ kind: 'certificates', identities })
    this.#tell()
  }

  /** Wakes requests that wait for an identity. */
  #tell(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }

  #takeBundles(bundles: Bundles): void {
    const before = this.#roots()
    this.#allRoots = bundles
    this.#context.log.debug(`The Workload API gives the bundles of ${[...bundles.keys()].join(', ')}`)
    this.#notifyRoots(before)
  }

  /** Both streams bring roots, one a moment before the other: the union lacks neither old nor new ones. */
  #rootsOf(trustDomain: string): readonly string[] {
    const prefix = `spiffe://${trustDomain}/`
    const svids = [...(this.#update?.svids ?? [])].find(([identity]) => identity.startsWith(prefix))
    return [...new Set([...(svids?.[1].roots ?? []), ...(this.#allRoots.get(trustDomain) ?? [])])]
  }

  /** All that `trustBundle` and `federatedBundles` give, each root with its trust domain. */
  #roots(): ReadonlySet<string> {
    const { trustDomain } = this.#context
    const own = this.#rootsOf(trustDomain).map(root => `${trustDomain} ${root}`)
    const all = [...this.#allRoots].flatMap(([name, roots]) => roots.map(root => `${name} ${root}`))
    return new Set([...own, ...all])
  }

  #notifyRoots(before: ReadonlySet<string>): void {
    const now = this.#roots()
    if (before.size === now.size && [...before].every(root => now.has(root))) return
    this.#notify({ kind: 'roots' })
  }

  #notify(change: CAChange): void {
    for (const listener of this.#listeners) listener(change)
  }

  /** Reports the same reason once: attempts continue for as long as it takes. */
  #reportBroken({ message, code }: CAError, retryMs: number): void {
    if (this.#update) wipe(this.#update)
    this.#tell()
    const { log } = this.#context
    const line = `${message} It is asked again within ${Math.ceil(retryMs / 1000)} s.`
    // A sole identity can be back when it is asked again, like one that is missing from a push.
    if (code === 'denied' && this.#update && this.#lastFault === '') {
      this.#lastFault = MAY_RETURN
      log.debug(line)
      return
    }
    if (this.#lastFault === message) log.debug(line)
    else log.warn(line)
    this.#lastFault = message
  }

  #notAmong(identity: SpiffeId, given: readonly SpiffeId[]): CAError {
    const more = given.length > MAX_NAMES ? ` and ${given.length - MAX_NAMES} more` : ''
    const names = `${given.slice(0, MAX_NAMES).join(', ')}${more}`
    return new CAError(
      'denied',
      `The Workload API at ${this.#address} gives this process no ${identity}, but: ${names}. Register it with selectors that match this process.`,
    )
  }
}

function answerOf(address: string, what: 'identities' | 'bundles'): Answer {
  return { action: `get ${what} from the Workload API at ${address}`, remedy: 'Check the address' }
}

/** Not a fault: the roots that come with the identities suffice. */
function withoutBundles(failure: StreamFailure, cause: ServiceError | Error | undefined): StreamFailure {
  const isAbsent = cause && 'code' in cause && cause.code === status.UNIMPLEMENTED
  return isAbsent ? { ...failure, isFinal: true } : failure
}

/** Identities that are new, or have another certificate. */
function changedIdentities(before: SvidUpdate | undefined, { svids }: SvidUpdate): readonly SpiffeId[] {
  if (!before) return []
  const isSame = (identity: SpiffeId, { chain: [leaf] }: Svid) =>
    leaf !== undefined && before.svids.get(identity)?.chain[0]?.equals(leaf) === true
  return [...svids].filter(each => !isSame(...each)).map(([identity]) => identity)
}
