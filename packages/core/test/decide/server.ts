/** A server's streams: each gets the roots and their later versions, and accepts them, rejects them, or says nothing. */

import type { TrustBundleSecret } from '../../src/secrets/secret-item.ts'
import type { Receipts, StreamReceipts } from '../../src/trust/bundle-receipts.ts'
import type { Random } from './random.ts'

export const MOODS = ['accepts', 'accepts', 'accepts', 'rejects', 'silent'] as const

export type Mood = (typeof MOODS)[number]

interface Stream {
  readonly receipts: StreamReceipts
  readonly mood: Mood
}

interface Acknowledgement {
  readonly stream: Stream
  readonly bundle: TrustBundleSecret
  at: number
}

export class Server {
  readonly #random: Random
  readonly #streams: Stream[] = []
  #acknowledgements: Acknowledgement[] = []

  constructor(random: Random) {
    this.#random = random
  }

  /** When the next answer comes; infinite if none will. */
  get nextAt(): number {
    return this.#acknowledgements.reduce((least, { at }) => Math.min(least, at), Number.POSITIVE_INFINITY)
  }

  /** One more stream, which gets `bundles` first. */
  open(receipts: Receipts, mood: Mood, bundles: Iterable<TrustBundleSecret>, now: number): void {
    const stream = { receipts: receipts.open(() => 'a client'), mood }
    this.#streams.push(stream)
    for (const bundle of bundles) this.#send(stream, bundle, now)
  }

  close(who: number): void {
    const [stream] = this.#streams.splice(who % Math.max(this.#streams.length, 1), 1)
    this.#acknowledgements = this.#acknowledgements.filter(each => each.stream !== stream)
    stream?.receipts[Symbol.dispose]()
  }

  closeAll(): void {
    while (this.#streams.length > 0) this.close(0)
  }

  /** All streams get this version. */
  push(bundle: TrustBundleSecret, now: number): void {
    for (const stream of this.#streams) this.#send(stream, bundle, now)
  }

  /** One answer that is due comes. */
  answerNext(now: number): void {
    const index = this.#acknowledgements.findIndex(({ at }) => at <= now)
    if (index === -1) return
    for (const { stream, bundle } of this.#acknowledgements.splice(index, 1))
      if (stream.mood === 'accepts') stream.receipts.accepted(bundle)
      else stream.receipts.rejected(bundle, 'no')
  }

  /** The clock was set. */
  move(ms: number): void {
    for (const each of this.#acknowledgements) each.at += ms
  }

  #send(stream: Stream, bundle: TrustBundleSecret, now: number): void {
    stream.receipts.sent(bundle)
    if (stream.mood !== 'silent') this.#acknowledgements.push({ stream, bundle, at: now + this.#random.below(2_000) })
  }
}
