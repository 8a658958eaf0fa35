/** New streams, a slice in each turn of the event loop: a peer can send the headers of thousands in one read. */
import type { ServerHttp2Stream } from 'node:http2'
import type { CallerReads } from './caller-reads.ts'
import { NextTurn } from './next-turn.ts'

/** The streams of all connections together: about 5 ms of work. */
const STREAMS_OF_A_TURN = 64

interface Opening {
  readonly stream: ServerHttp2Stream
  /** Charges what it costs to wait. Returns `false` if there is no room, and then refuses the stream. */
  hold(): boolean
  /** Called even for a stream that has closed by then, which costs nothing. */
  open(): void
}

/** One for the whole server. The callers that wait take turns, so that none waits for the thousands of another. */
export class OpeningQueue {
  readonly #waiting = new Map<CallerReads, Opening[]>()
  #opened = 0
  readonly #nextTurn = new NextTurn(() => this.#slice())

  /** Calls `open` at once while there is room in this turn, and else in a later one. */
  add(caller: CallerReads, opening: Opening): void {
    this.#nextTurn.schedule()
    if (this.#opened < STREAMS_OF_A_TURN && this.#waiting.size === 0) {
      this.#opened++
      opening.open()
      return
    }
    if (!opening.hold()) return
    caller.unopened++
    const others = this.#waiting.get(caller)
    if (others) others.push(opening)
    else this.#waiting.set(caller, [opening])
  }

  #slice(): void {
    this.#opened = 0
    const share = Math.max(1, Math.floor(STREAMS_OF_A_TURN / this.#waiting.size))
    for (const [caller, openings] of this.#waiting) {
      // A caller that had its turn waits behind the others for the next one.
      this.#waiting.delete(caller)
      const left = this.#openSome(openings, share)
      caller.unopened -= openings.length - left.length
      if (left.length > 0) this.#waiting.set(caller, left)
      if (this.#opened >= STREAMS_OF_A_TURN) break
    }
    if (this.#waiting.size > 0) this.#nextTurn.schedule()
  }

  #openSome(openings: Opening[], most: number): Opening[] {
    let seen = 0
    for (let opened = 0; seen < openings.length && opened < most; seen++) {
      const opening = openings[seen]
      if (!opening) continue
      if (!opening.stream.destroyed) {
        opened++
        this.#opened++
      }
      opening.open()
    }
    return openings.slice(seen)
  }
}
