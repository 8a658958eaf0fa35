/**
 * A CA from its clients' view: replicas with a queue each, outages, changing roots. It records its load.
 * A client stays on one replica, as a gRPC connection does.
 */

import type { Root } from '@livery/core/decide'
import { type CACapabilities, CAError } from '@livery/core/plugin'
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

/** The end of a call at the client; `signedAt` if it has a certificate. */
export type Outcome =
  | { readonly at: number; readonly signedAt: number; readonly failure?: undefined }
  | { readonly at: number; readonly failure: CAError; readonly signedAt?: undefined }

export interface ModelCAOptions {
  readonly time: VirtualTime
  readonly random: () => number
  readonly replicas: number
  /** The signatures a second of each replica. */
  readonly rate: number
  /** Requests that may wait at a replica. */
  readonly queue: number
  /** The wait that a refusal asks for, milliseconds; `undefined`: none. */
  readonly retryAfterMs: number | undefined
  /** The round trip from a node to the CA, milliseconds. */
  readonly roundTripMs: number
  /** The timeout of a client, milliseconds (10 s in the plugin `citadel`). */
  readonly timeoutMs: number
  /** `push`: clients learn of new roots at once. `poll`: they can ask for the list. `none`: roots come with certificates, as Istio's. */
  readonly roots: CACapabilities['roots']
  /** Outages in order, without overlap. */
  readonly outages: readonly Outage[]
}

/** Made once: the stack trace of an error costs more than the rest of a call. */
const TIMEOUT = new CAError('timeout', 'no answer in time')
const REFUSED = new CAError('unavailable', 'connection refused')
const LOST = new CAError('unavailable', 'connection lost')

/** How far notBefore is in the past, as istiod sets it. */
export const BACKDATE_MS = 120_000

export class ModelCA {
  readonly calls: Counts
  readonly signed: Counts
  readonly refused: Counts
  /** The wait at the CA of every signed call since the start, or since `forgetWaits`, milliseconds. */
  waits = new Counts(0, 1)
  readonly #options: ModelCAOptions
  readonly #replicas: readonly Replica[]
  readonly #full: CAError
  readonly #listeners: (() => void)[] = []
  #roots: readonly Root[]
  #signingRoot: Root

  constructor(options: ModelCAOptions, root: Root) {
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

  get roots(): readonly Root[] {
    return this.#roots
  }

  get signingRoot(): Root {
    return this.#signingRoot
  }

  /** Signs with `root` from now on; the others stay trusted. */
  addRoot(root: Root): void {
    this.#roots = [...this.#roots, root]
    this.#signingRoot = root
    this.#announce()
  }

  /** Drops all roots but the signing one. */
  dropOldRoots(): void {
    this.#roots = [this.#signingRoot]
    this.#announce()
  }

  /** A replica drawn at random, which a node keeps. */
  drawReplica(): Replica {
    const replica = this.#replicas[Math.floor(this.#options.random() * this.#replicas.length)]
    if (!replica) throw new RangeError('Cannot draw a replica of a CA without any')
    return replica
  }

  /** Calls `listener` with each change of its roots, if it pushes them. */
  onRoots(listener: () => void): void {
    if (this.#options.roots === 'push') this.#listeners.push(listener)
  }

  /** Makes a call now. Its outcome is known at once: no later call overtakes it. */
  call(replica: Replica): Outcome {
    const { time, timeoutMs } = this.#options
    const deadline = time.now() + timeoutMs
    const outcome = this.#arrive(replica)
    if (outcome && outcome.at <= deadline) return outcome
    return { at: deadline, failure: TIMEOUT }
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
    for (const listener of this.#listeners) time.at(time.now() + ANNOUNCE_WITHIN_MS * random(), () => listener())
  }

  #stop(): void {
    for (const replica of this.#replicas) replica.stop(this.#options.time.now())
  }
}

/** The time within which news of a root reach all nodes. */
const ANNOUNCE_WITHIN_MS = 1_000
