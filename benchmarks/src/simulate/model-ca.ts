/**
 * A CA as its clients feel it: replicas with a queue each, outages, roots that come and go. It keeps the books of its load.
 * A client stays on one replica, as a gRPC connection does.
 */
import {
  type CACapabilities,
  type CAChange,
  type CAClient,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  untilAborted,
} from '@livery/core'
import { encodeCertificate } from './placeholder-crypto.ts'
import { PerSecond } from './rates.ts'
import { Replica } from './replica.ts'
import type { VirtualTime } from './virtual-time.ts'

/** The CA does not answer from `from` until `until`, milliseconds since the epoch. */
export interface Outage {
  readonly from: number
  readonly until: number
  /** `refuse`: connections are refused at once. `silent`: calls wait for their deadline. */
  readonly manner: 'refuse' | 'silent'
}

export interface ModelRoot {
  readonly pem: string
  /** SHA-256 (hex) of the DER. */
  readonly fingerprint: string
}

interface ModelCAOptions {
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
  readonly outage: Outage | undefined
}

/** How far notBefore is in the past, as istiod sets it. */
export const BACKDATE_MS = 120_000

export class ModelCA {
  readonly calls: PerSecond
  readonly signed: PerSecond
  readonly refused: PerSecond
  /** The longest wait for a signature, ms, of the calls that arrived in a second. */
  readonly waitMs: PerSecond
  /** Of every answered call, milliseconds at the CA. */
  readonly latencies: number[] = []
  readonly #options: ModelCAOptions
  readonly #replicas: readonly Replica[]
  readonly #listeners = new Set<(change: CAChange) => void>()
  #roots: readonly ModelRoot[]
  #signingRoot: ModelRoot
  #serial = 0

  constructor(options: ModelCAOptions, root: ModelRoot) {
    this.#options = options
    const { replicas, time, rate, queue, random } = options
    this.#replicas = Array.from({ length: replicas }, () => new Replica({ rate, queue, random }))
    this.#roots = [root]
    this.#signingRoot = root
    this.calls = new PerSecond(time.start)
    this.signed = new PerSecond(time.start)
    this.refused = new PerSecond(time.start)
    this.waitMs = new PerSecond(time.start)
    if (options.outage) time.at(options.outage.from, () => this.#stop())
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

  /** A node's client, on a replica drawn by chance. */
  connect(): CAClient {
    const replica = this.#replicas[Math.floor(this.#options.random() * this.#replicas.length)]
    if (!replica) throw new RangeError('Cannot connect to a CA without replicas')
    const client: CAClient = {
      issue: request => this.#issue(replica, request),
      async [Symbol.asyncDispose]() {},
    }
    const { roots } = this.#options
    if (roots === 'none') return client
    const listing: CAClient = { ...client, trustBundle: ({ signal }) => untilAborted(this.#listRoots(), signal) }
    if (roots === 'poll') return listing
    return {
      ...listing,
      subscribe: listener => {
        this.#listeners.add(listener)
        return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
      },
    }
  }

  async #issue(replica: Replica, request: CertificateRequest): Promise<IssuedCertificate> {
    await request.csr()
    const { promise, resolve, reject } = Promise.withResolvers<IssuedCertificate>()
    const { time, timeoutMs } = this.#options
    using _deadline = time.at(time.now() + timeoutMs, () =>
      reject(new CAError('timeout', `no answer within ${timeoutMs} ms`)),
    )
    this.#arrive(replica, request, resolve, reject)
    return await untilAborted(promise, request.signal)
  }

  #arrive(
    replica: Replica,
    request: CertificateRequest,
    resolve: (issued: IssuedCertificate) => void,
    reject: (error: CAError) => void,
  ): void {
    const { time, roundTripMs, retryAfterMs, outage } = this.#options
    const at = time.now() + roundTripMs / 2
    const back = roundTripMs / 2
    this.calls.add(at)
    if (outage && at >= outage.from && at < outage.until) {
      if (outage.manner === 'refuse') time.at(at + back, () => reject(new CAError('unavailable', 'connection refused')))
      return
    }
    const turn = replica.offer(at)
    if (turn.kind === 'refused') {
      this.refused.add(at)
      const hint = retryAfterMs === undefined ? {} : { retryAfterMs }
      time.at(at + back, () => reject(new CAError('rate-limited', 'the queue is full', hint)))
      return
    }
    this.waitMs.raise(at, turn.at - at)
    if (outage && at < outage.from && turn.at > outage.from) {
      time.at(outage.from + back, () => reject(new CAError('unavailable', 'connection lost')))
      return
    }
    this.signed.add(turn.at)
    this.latencies.push(turn.at - at)
    time.at(turn.at + back, () => resolve(this.#sign(request, turn.at)))
  }

  #sign({ identity, ttlSeconds }: CertificateRequest, at: number): IssuedCertificate {
    const leaf = encodeCertificate({
      identity,
      notBefore: at - BACKDATE_MS,
      notAfter: at + ttlSeconds * 1_000,
      serial: ++this.#serial,
      root: this.#signingRoot.fingerprint,
    })
    return { chain: [leaf], roots: this.#roots.map(root => root.pem) }
  }

  async #listRoots(): Promise<readonly string[]> {
    const { time, roundTripMs } = this.#options
    const { promise, resolve } = Promise.withResolvers<void>()
    time.at(time.now() + roundTripMs, resolve)
    await promise
    return this.#roots.map(root => root.pem)
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

/** News of a root reach the nodes one after the other within so long. */
const ANNOUNCE_WITHIN_MS = 1_000
