/** When things fall due by themselves: one time for each, the earliest first. */

export interface Wakeable {
  /** Its place among the wakes, -1 while it has none: they alone change it. */
  place: number
}

/** The children of each node: four make short paths, and lie side by side in memory. */
const CHILDREN = 4

/** A heap that knows the place of each thing: a new time only moves the thing, and leaves no stale entry. */
export class Wakes<Thing extends Wakeable> {
  /** Milliseconds since the epoch. Apart from the things: comparing times touches nothing else. */
  readonly #times: number[] = []
  readonly #things: Thing[] = []

  /** When the first one is to be looked at; infinite if none is. */
  get nextAt(): number {
    return this.#times[0] ?? Number.POSITIVE_INFINITY
  }

  /** Wakes it at `time`, whatever it was before; never, if that is infinite. */
  arm(thing: Thing, time: number): void {
    if (time === Number.POSITIVE_INFINITY) this.delete(thing)
    else if (thing.place === -1) this.#rise(this.#things.length, thing, time)
    else if (time < (this.#times[thing.place] ?? time)) this.#rise(thing.place, thing, time)
    else this.#sink(thing.place, thing, time)
  }

  delete(thing: Thing): void {
    const { place } = thing
    if (place === -1) return
    thing.place = -1
    const last = this.#things.pop()
    const time = this.#times.pop()
    if (last === undefined || time === undefined || last === thing) return
    if (time < (this.#times[place] ?? time)) this.#rise(place, last, time)
    else this.#sink(place, last, time)
  }

  /** Takes out the first one whose time has come, if there is one. */
  take(now: number): Thing | undefined {
    const [first] = this.#things
    if (first === undefined || this.nextAt > now) return undefined
    this.delete(first)
    return first
  }

  #rise(from: number, thing: Thing, time: number): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      const above = this.#things[parent]
      const timeAbove = this.#times[parent]
      if (above === undefined || timeAbove === undefined || timeAbove <= time) break
      this.#put(place, above, timeAbove)
      place = parent
    }
    this.#put(place, thing, time)
  }

  #sink(from: number, thing: Thing, time: number): void {
    let place = from
    for (;;) {
      const first = CHILDREN * place + 1
      let child = first
      let childTime = this.#times[first]
      if (childTime === undefined) break
      for (let other = first + 1; other < first + CHILDREN; other++) {
        const otherTime = this.#times[other]
        if (otherTime === undefined || otherTime >= childTime) continue
        child = other
        childTime = otherTime
      }
      const below = this.#things[child]
      if (below === undefined || childTime >= time) break
      this.#put(place, below, childTime)
      place = child
    }
    this.#put(place, thing, time)
  }

  #put(place: number, thing: Thing, time: number): void {
    this.#things[place] = thing
    this.#times[place] = time
    thing.place = place
  }
}
