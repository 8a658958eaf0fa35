/** New connections, a slice in each turn of the event loop: thousands can have been accepted in one. */
import type { CallerAccount } from './caller-account.ts'
import { NextTurn } from './next-turn.ts'

/** The sum over all sockets: about 8 ms of work, as long as a slice of pushes is. */
const OPENED_IN_A_TURN = 16

/** One for the whole server. The callers that wait take turns, so that none waits for the thousands of another. */
export class ArrivalQueue {
  readonly #waiting = new Map<CallerAccount, (() => void)[]>()
  readonly #nextTurn = new NextTurn(() => this.#slice())

  /** Calls `open` soon, when all that waits in the kernel has been accepted. */
  add(account: CallerAccount, open: () => void): void {
    this.#nextTurn.schedule()
    const others = this.#waiting.get(account)
    if (others) others.push(open)
    else this.#waiting.set(account, [open])
  }

  #slice(): void {
    const share = Math.max(1, Math.floor(OPENED_IN_A_TURN / this.#waiting.size))
    let left = OPENED_IN_A_TURN
    for (const [account, openings] of this.#waiting) {
      // A caller that had its turn waits behind the others for the next one.
      this.#waiting.delete(account)
      const due = openings.splice(0, share)
      for (const open of due) open()
      left -= due.length
      if (openings.length > 0) this.#waiting.set(account, openings)
      if (left <= 0) break
    }
    if (this.#waiting.size > 0) this.#nextTurn.schedule()
  }
}
