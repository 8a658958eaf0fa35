/**
 * A CA as its clients feel it: replicas with a queue each, outages, roots that come and go. It keeps the books of its load.
 * A client stays on one replica, as a gRPC connection does.
 */
import { type CACapabilities, type CAChange, type CAClient, CAError, untilAborted } from '@livery/core'
import type { OfferedRoots } from '@livery/core/decide'
import { Counts } from './rates.ts'
import { Replica } from './replica.ts'
import type { VirtualTime } from './virtual-time.ts'

/** The CA does not answer from `from` until `until`, milliseconds since the epoch. */
export interface Outage {
  readonly from: number
  readonly until: number
  /** `refuse`: connections are refused at once. `silent`: calls wait for their deadline. */
  readonly manner: 'refuse' | 'silent'
}

export type ModelRoot = OfferedRoots['roots'][number]

/** The end of a call, at the client: `signedAt` where it has a certificate. */
export type Outcome =
  | { readonly at: number; readonly signedAt: number; readonly failure?: undefined }
  | { readonly at: number; readonly failure: CAError }

export interface ModelCAOptions {
  readonly time: VirtualTime
  readonly random: () => number
  readonly replicas: number
  /** Signatures a second, of each replica. */
  readonly rate: number
  /** Requests that may wait at a replica. */
  readonly queue: number
  /** How long a refusal asks to wait, milliseconds; `undefined`: it does not say. */
  readonly retryAfterMs: number | undefined
  /** From a node to the CA and back, milliseconds. */
  readonly roundTripMs: number
  /** A client gives up after so long, milliseconds (as the plugin `citadel` does after 10 s). */
  readonly timeoutMs: number
  /** `push`: clients hear of new roots at once. `poll`: they can ask for the list. `none`: roots come with certificates, as Istio's. */
  readonly roots: CACapabilities['roots']
  /** None begins before the one before has ended. */
  readonly outages: readonly Outage[]
}

/** Made once: the trace of an error costs more than all else about a call. */
const TIMEOUT = new CAError('timeout', 'no answer in time')
const REFUSED = new CAError('unavailable', 'connection refused')
const LOST = new CAError('unavailable', 'connection lost')

/** How far notBefore is in the past, as istiod sets it. */
export const BACKDATE_MS = 120_000

export class ModelCA {
  readonly calls: Counts
  readonly signed: Counts
  readonly refused: Counts
  /** Of every signed call since the start, or since `forgetWaits`: milliseconds at the CA. */
  waits = new Counts(0, 1)
  readonly #options: ModelCAOptions
  readonly #replicas: readonly Replica[]
  readonly #full: CAError
  readonly #listeners: ((change: CAChange) => void)[] = []
  #roots: readonly ModelRoot[]
  #signingRoot: ModelRoot

  constructor(options: ModelCAOptions, root: ModelRoot) {
    this.#options = options
    const { replicas, time, rate, queue, random, retryAfterMs } = options
    this.#replicas = Array.from({ length: replicas }, () => new Replica({ rate, queue, random }))
    this.#roots = [root]
    this.#signingRoot = root
    const hint = retryAfterMs === undefined ? {} : { retryAfterMs }
    this.#full = new CAError('rate-limited', 'the queue is full', hint)
    this.calls = new Counts(time.start, 1_000)
    this.signed = new Counts(time.start, 1_000)
    this.refused = new Counts(time.start, 1_000)
    for (const { from } of options.outages) time.at(from, () => this.#stop())
  }

  forgetWaits(): void {
    this.waits = new Counts(0, 1)
  }

  get roots(): readonly ModelRoot[] {
    return this.#roots
  }

  get signingRoot(): ModelRoot {
    return this.#signingRoot
  }

  /** Signs with `root` from now on; the others stay trusted. */
  addRoot(root: ModelRoot): void {
    this.#roots = [...this.#roots, root]
    this.#signingRoot = root
    this.#announce()
  }

  /** Trusts none but the signing root from now on. */
  dropOldRoots(): void {
    this.#roots = [this.#signingRoot]
    this.#announce()
  }

  /** For a node, drawn by chance. */
  drawReplica(): Replica {
    const replica = this.#replicas[Math.floor(this.#options.random() * this.#replicas.length)]
    if (!replica) throw new RangeError('Cannot draw a replica of a CA without any')
    return replica
  }

  /** How a node hears of its roots. */
  rootList(): Omit<CAClient, 'issue'> {
    const { roots } = this.#options
    const client: Omit<CAClient, 'issue'> = { async [Symbol.asyncDispose]() {} }
    if (roots === 'none') return client
    const listing = { ...client, trustBundle: listRoots(this) }
    if (roots === 'poll') return listing
    return {
      ...listing,
      subscribe: listener => {
        this.#listeners.push(listener)
        return { [Symbol.dispose]: () => {} }
      },
    }
  }

  /** Makes a call now. What becomes of it is known at once: no later call goes before it. */
  call(replica: Replica): Outcome {
    const { time, timeoutMs } = this.#options
    const deadline = time.now() + timeoutMs
    const outcome = this.#arrive(replica)
    if (outcome && outcome.at <= deadline) return outcome
    return { at: deadline, failure: TIMEOUT }
  }

  /** Resolves with the PEM of its roots after a round trip. */
  async listRoots(): Promise<readonly string[]> {
    const { time, roundTripMs } = this.#options
    const { promise, resolve } = Promise.withResolvers<void>()
    time.clock().at(time.now() + roundTripMs, resolve)
    await promise
    return this.#roots.map(root => root.pem)
  }

  #arrive(replica: Replica): Outcome | undefined {
    const { time, roundTripMs, outages } = this.#options
    const at = time.now() + roundTripMs / 2
    const back = roundTripMs / 2
    this.calls.add(at)
    const outage = outages.find(({ until }) => at < until)
    if (outage && at >= outage.from) {
      if (outage.manner === 'silent') return undefined
      return { at: at + back, failure: REFUSED }
    }
    const turn = replica.offer(at)
    if (turn.kind === 'refused') {
      this.refused.add(at)
      return { at: at + back, failure: this.#full }
    }
    if (outage && turn.at > outage.from) return { at: outage.from + back, failure: LOST }
    this.signed.add(turn.at)
    this.waits.add(turn.at - at)
    return { at: turn.at + back, signedAt: turn.at }
  }

  #announce(): void {
    const { time, random } = this.#options
    for (const listener of this.#listeners)
      time.at(time.now() + ANNOUNCE_WITHIN_MS * random(), () => listener({ kind: 'roots' }))
  }

  #stop(): void {
    for (const replica of this.#replicas) replica.stop(this.#options.time.now())
  }
}

function listRoots(ca: ModelCA): NonNullable<CAClient['trustBundle']> {
  return ({ signal }) => untilAborted(ca.listRoots(), signal)
}

/** News of a root reach the nodes one after the other within so long. */
const ANNOUNCE_WITHIN_MS = 1_000
