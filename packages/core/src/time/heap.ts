/** A binary heap: whatever comes before all others is on top. */
export class Heap<Item> {
  readonly #isBefore: (a: Item, b: Item) => boolean
  #items: Item[] = []

  constructor(isBefore: (a: Item, b: Item) => boolean) {
    this.#isBefore = isBefore
  }

  peek(): Item | undefined {
    return this.#items[0]
  }

  get size(): number {
    return this.#items.length
  }

  clear(): void {
    this.#items = []
  }

  /** Removes all other items. */
  retain(keep: (item: Item) => boolean): void {
    this.#items = this.#items.filter(keep)
    // Floyd's way, from the last parent up: in linear time.
    for (let index = (this.#items.length >> 1) - 1; index >= 0; index--) this.#sink(index)
  }

  push(item: Item): void {
    const items = this.#items
    let index = items.push(item) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = items[parent]
      if (above === undefined || !this.#isBefore(item, above)) break
      items[index] = above
      index = parent
    }
    items[index] = item
  }

  pop(): Item | undefined {
    const items = this.#items
    const top = items[0]
    const last = items.pop()
    if (last === undefined || items.length === 0) return top
    items[0] = last
    this.#sink(0)
    return top
  }

  /** Both heaps below `start` are in order. */
  #sink(start: number): void {
    const items = this.#items
    const item = items[start]
    if (item === undefined) return
    let index = start
    for (;;) {
      let child = 2 * index + 1
      const left = items[child]
      if (left === undefined) break
      const right = items[child + 1]
      if (right !== undefined && this.#isBefore(right, left)) child++
      const smaller = items[child]
      if (smaller === undefined || !this.#isBefore(smaller, item)) break
      items[index] = smaller
      index = child
    }
    items[index] = item
  }
}
