/** Things in the order of their times, the earliest first. */

export interface Placed {
  /** Its place in the heap, -1 outside: the heap alone changes it. */
  place: number
}

/** The children of each node: four make short paths, and lie side by side in memory. */
const CHILDREN = 4

/** A heap that knows the place of each thing: a new time only moves the thing, and leaves no stale entry. */
export class Heap<Thing extends Placed> {
  /** Milliseconds since the epoch. Apart from the things: comparing times touches nothing else. */
  readonly #times: number[] = []
  readonly #things: Thing[] = []
  readonly #precedes: (a: Thing, b: Thing) => boolean

  /** `precedes` decides between two things of the same time. Default: either may be first. */
  constructor(precedes: (a: Thing, b: Thing) => boolean = () => false) {
    this.#precedes = precedes
  }

  get size(): number {
    return this.#things.length
  }

  /** The time of the first one; infinite if there is none. */
  get nextAt(): number {
    return this.#times[0] ?? Number.POSITIVE_INFINITY
  }

  get first(): Thing | undefined {
    return this.#things[0]
  }

  /** All of them, in no order; a copy. */
  things(): Thing[] {
    return [...this.#things]
  }

  /** Gives it this time, whatever it had before; takes it out, if that is infinite. */
  put(thing: Thing, time: number): void {
    const { place } = thing
    if (time === Number.POSITIVE_INFINITY) this.delete(thing)
    else if (place === -1) this.#rise(this.#things.length, thing, time)
    else if (time < (this.#times[place] ?? time)) this.#rise(place, thing, time)
    else this.#sink(place, thing, time)
  }

  delete(thing: Thing): void {
    const { place } = thing
    if (place === -1) return
    thing.place = -1
    const last = this.#things.pop()
    const time = this.#times.pop()
    if (last === undefined || time === undefined || last === thing) return
    // Only one of the two moves it.
    this.#rise(place, last, time)
    this.#sink(last.place, last, time)
  }

  /** Takes out the first one whose time has come, if there is one. */
  take(now: number): Thing | undefined {
    const [first] = this.#things
    if (first === undefined || this.nextAt > now) return undefined
    this.delete(first)
    return first
  }

  clear(): void {
    for (const thing of this.#things) thing.place = -1
    this.#things.length = 0
    this.#times.length = 0
  }

  #rise(from: number, thing: Thing, time: number): void {
    const times = this.#times
    const things = this.#things
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      const above = things[parent]
      const timeAbove = times[parent]
      if (above === undefined || timeAbove === undefined || timeAbove < time) break
      if (timeAbove === time && !this.#precedes(thing, above)) break
      this.#set(place, above, timeAbove)
      place = parent
    }
    this.#set(place, thing, time)
  }

  #sink(from: number, thing: Thing, time: number): void {
    const times = this.#times
    const things = this.#things
    let place = from
    for (;;) {
      let child = CHILDREN * place + 1
      let below = things[child]
      let timeBelow = times[child]
      if (below === undefined || timeBelow === undefined) break
      const end = Math.min(child + CHILDREN, things.length)
      for (let next = child + 1; next < end; next++) {
        const other = things[next]
        const otherTime = times[next]
        if (other === undefined || otherTime === undefined || otherTime > timeBelow) continue
        if (otherTime === timeBelow && !this.#precedes(other, below)) continue
        child = next
        below = other
        timeBelow = otherTime
      }
      if (timeBelow > time || (timeBelow === time && !this.#precedes(below, thing))) break
      this.#set(place, below, timeBelow)
      place = child
    }
    this.#set(place, thing, time)
  }

  #set(place: number, thing: Thing, time: number): void {
    this.#things[place] = thing
    this.#times[place] = time
    thing.place = place
  }
}
