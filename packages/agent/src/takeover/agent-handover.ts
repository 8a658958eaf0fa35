/** A handover from the side of the old agent: it releases, drains and leaves, or takes all back. */
import { sleep } from '@livery/core/plugin'
import type { Basis } from '../life/basis.ts'
import type { Logger } from '../observe/logger.ts'

/**
 * A caller that connected before a successor replaced the socket may not be accepted yet: closing it would turn that caller
 * away. The wait has steps, because on a busy machine all of it can pass before this process accepts anything.
 */
const LAST_CALLS = { steps: 5, stepMs: 50 } as const

export interface HandoverParts extends Pick<Basis, 'life' | 'clock' | 'staysWhenSucceeded'> {
  readonly logger: Logger
}

export class AgentHandover {
  readonly #parts: HandoverParts
  /** The departure in progress, or the completed one. */
  #leaving: object | undefined
  #hasLeft = false

  constructor(parts: HandoverParts) {
    this.#parts = parts
  }

  /** Nothing can be handed over before the agent serves, and after. */
  isServing(): boolean {
    return this.#parts.life.phase === 'serving'
  }

  /** Writes pending changes to the store and the output directories, and nothing more until `reclaim`. */
  async release(): Promise<void> {
    const { life } = this.#parts
    life.sds?.endTakeover()
    await life.release()
  }

  /** The successor is gone: takes back the store and the output directories. */
  reclaim(): void {
    this.#parts.life.reclaim()
  }

  /** The successor does not serve: this agent listens on its sockets again, including those that the successor replaced. */
  async reclaimSockets(): Promise<void> {
    const { life } = this.#parts
    await life.sds?.reclaim()
    life.resume()
  }

  /** Drains this agent: the successor serves. */
  leave(): void {
    const { life, logger, staysWhenSucceeded } = this.#parts
    logger.info('another agent serves now: draining')
    void this.#leave().finally(() => {
      if (!this.#hasLeft) return
      if (staysWhenSucceeded) logger.info('drained: this process stays until it is stopped')
      else life.succession.resolve('succeeded')
    })
  }

  /** Keeps a draining agent from ending; `false` once it has drained: nothing can be taken back any more. */
  stay(): boolean {
    if (!this.#hasLeft) this.#leaving = undefined
    return !this.#hasLeft
  }

  /** Ends this agent: the successor left and ended. */
  end(): void {
    this.#parts.life.succession.resolve('successor-gone')
  }

  /** Ends the parts that the successor has taken over, unless {@link stay} is called; the rest stays until the end, and answers probes. */
  async #leave(): Promise<void> {
    const { life, clock } = this.#parts
    life.drain()
    const { sds } = life
    if (!sds) return
    const leaving = {}
    this.#leaving = leaving
    for (let step = 0; step < LAST_CALLS.steps; step++) await sleep(clock, LAST_CALLS.stepMs)
    if (this.#leaving === leaving) await sds.handOver()
    if (this.#leaving !== leaving) return
    this.#hasLeft = true
    await Promise.all([life.leave(), sds.close()])
  }
}
