/** At most one time for each item, the earliest first. */

/** Of an item: its index while it has a time, else -1. Only the timetable changes it. */
export interface Placed {
  place: number
}

/** Of each item, so that a path through the heap is short and few children lie side by side. */
const CHILDREN = 4

/** A heap that knows where each item is, so that another time costs no more than the way to its new place. */
export class Timetable<Item extends Placed> {
  /** Apart from the items: comparing them touches nothing else. */
  readonly #times: number[] = []
  readonly #items: Item[] = []

  /** The earliest time; infinite if there is none. */
  get next(): number {
    return this.#times[0] ?? Number.POSITIVE_INFINITY
  }

  get size(): number {
    return this.#items.length
  }

  /** Gives an item another time; an infinite one takes it out. */
  set(item: Item, time: number): void {
    if (time === Number.POSITIVE_INFINITY) this.delete(item)
    else if (item.place === -1) this.#rise(this.#items.length, item, time)
    else if (time < (this.#times[item.place] ?? time)) this.#rise(item.place, item, time)
    else this.#sink(item.place, item, time)
  }

  delete(item: Item): void {
    const { place } = item
    if (place === -1) return
    item.place = -1
    const last = this.#items.pop()
    const time = this.#times.pop()
    if (last === undefined || time === undefined || last === item) return
    if (time < (this.#times[place] ?? time)) this.#rise(place, last, time)
    else this.#sink(place, last, time)
  }

  /** The earliest item, without its time from now on, if that is no later than `now`. */
  takeDue(now: number): Item | undefined {
    const [first] = this.#items
    if (first === undefined || this.next > now) return undefined
    this.delete(first)
    return first
  }

  #rise(from: number, item: Item, time: number): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      const above = this.#items[parent]
      const timeAbove = this.#times[parent]
      if (above === undefined || timeAbove === undefined || timeAbove <= time) break
      this.#put(place, above, timeAbove)
      place = parent
    }
    this.#put(place, item, time)
  }

  #sink(from: number, item: Item, time: number): void {
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
      const below = this.#items[child]
      if (below === undefined || childTime >= time) break
      this.#put(place, below, childTime)
      place = child
    }
    this.#put(place, item, time)
  }

  #put(place: number, item: Item, time: number): void {
    this.#items[place] = item
    this.#times[place] = time
    item.place = place
  }
}
