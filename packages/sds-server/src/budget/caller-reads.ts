/** Bounds the cost of one caller's frames in a turn of the event loop: its sockets are not read beyond its slice. */
import { NextTurn } from './next-turn.ts'

/** The cost of each kind of frame until it is dropped or queued, in microseconds, measured and rounded up. */
export const FRAME_COSTS = {
  /** Few bytes of DATA that complete no message. */
  fragment: 1,
  /** SETTINGS or GOAWAY, and each frame behind one that broke the protocol. */
  control: 4,
  /** HEADERS that open a stream. */
  stream: 32,
} as const

/** 64 streams, which is what opens in a turn. */
const SLICE = 64 * FRAME_COSTS.stream
/** The sockets resumed in a turn: each may have a kernel buffer full of frames that Node does not report, such as PING or WINDOW_UPDATE. */
const RESUMED_OF_A_TURN = 16
const MOST_UNOPENED = 64
/** DATA of at least this length costs little per byte. */
const SMALL_BYTES = 1_024

export interface ReadSource {
  stopReading(): void
  startReading(): void
}

/**
 * The sum over all sockets of the caller. One read of a socket can hold more than the slice, which the caller pays in later
 * turns. Sockets that wait are resumed in order, a few in each turn, so the peer feels it as a slow reader.
 */
export class CallerReads {
  /** Streams that wait in `OpeningQueue`. */
  unopened = 0
  readonly #reading = new Set<ReadSource>()
  readonly #waiting = new Set<ReadSource>()
  #spent = 0
  readonly #nextTurn = new NextTurn(() => this.#onTurn())

  add(source: ReadSource): void {
    if (this.#waiting.size > 0) this.#stop(source)
    else this.#reading.add(source)
  }

  delete(source: ReadSource): void {
    this.#reading.delete(source)
    this.#waiting.delete(source)
  }

  /** Call for each frame when it arrives, with its part of `FRAME_COSTS`. */
  spend(cost: number): void {
    this.#spent += cost
    this.#nextTurn.schedule()
    if (this.#spent >= SLICE) this.stopAll()
  }

  /** Call for each DATA frame that completes no message. */
  spendOnFragment(bytes: number): void {
    if (bytes < SMALL_BYTES) this.spend(FRAME_COSTS.fragment)
  }

  /** Reads none of its sockets before a later turn, in which they are resumed in order. */
  stopAll(): void {
    this.#nextTurn.schedule()
    for (const source of this.#reading) this.#stop(source)
  }

  #stop(source: ReadSource): void {
    this.#reading.delete(source)
    this.#waiting.add(source)
    source.stopReading()
  }

  #onTurn(): void {
    this.#spent = Math.max(0, this.#spent - SLICE)
    if (this.#spent < SLICE && this.unopened < MOST_UNOPENED) this.#resumeSome()
    if (this.#spent > 0 || this.#waiting.size > 0) this.#nextTurn.schedule()
  }

  #resumeSome(): void {
    let left = RESUMED_OF_A_TURN
    for (const source of this.#waiting) {
      if (left-- === 0) break
      this.#waiting.delete(source)
      this.#reading.add(source)
      source.startReading()
    }
  }
}
