/** Calls a task once in the next turn of the event loop, however often that is asked for. */

export class NextTurn {
  readonly #task: () => void
  #isScheduled = false

  constructor(task: () => void) {
    this.#task = task
  }

  get isScheduled(): boolean {
    return this.#isScheduled
  }

  schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#task()
    })
  }
}
