/** When things fall due by themselves: one time for each, the earliest first. */

import { Heap } from '../time/heap.ts'

interface Wake<Thing> {
  /** Milliseconds since the epoch. */
  readonly time: number
  /** Absent once an earlier time took its place. */
  thing: Thing | undefined
}

/** The heap may hold so many wakes that were overtaken, beside one for each thing. */
const MAX_STALE = 1_000

export class Wakes<Thing> {
  readonly #heap = new Heap<Wake<Thing>>((a, b) => a.time < b.time)
  readonly #planned = new Map<Thing, Wake<Thing>>()

  /** When the first one is to be looked at; infinite if none is. */
  get nextAt(): number {
    return this.#heap.peek()?.time ?? Number.POSITIVE_INFINITY
  }

  /** Wakes it at `time` or before: one that is woken too early is looked at in vain. */
  arm(thing: Thing, time: number): void {
    const planned = this.#planned.get(thing)
    if (time === Number.POSITIVE_INFINITY || (planned && planned.time <= time)) return
    if (planned) planned.thing = undefined
    const wake = { time, thing }
    this.#planned.set(thing, wake)
    this.#heap.push(wake)
    if (this.#heap.size > 2 * this.#planned.size + MAX_STALE) this.#heap.retain(each => each.thing !== undefined)
  }

  delete(thing: Thing): void {
    const planned = this.#planned.get(thing)
    if (planned) planned.thing = undefined
    this.#planned.delete(thing)
  }

  /** Takes out one whose time has come, if there is one. */
  take(now: number): Thing | undefined {
    for (let wake = this.#heap.peek(); wake && wake.time <= now; wake = this.#heap.peek()) {
      this.#heap.pop()
      if (wake.thing === undefined) continue
      this.#planned.delete(wake.thing)
      return wake.thing
    }
    return undefined
  }
}
