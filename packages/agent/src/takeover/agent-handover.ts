/** What a handover does to the agent that hands over: it releases, drains and leaves, or takes all back. */
import { type Clock, sleep } from '@livery/core'
import type { Life } from '../life/life.ts'
import type { Logger } from '../observe/logger.ts'
import type { Handover } from './store-owner.ts'

/**
 * A caller that connected before a successor replaced the socket may not be accepted yet: closing it would turn that caller
 * away. In steps, because on a busy machine the whole wait can pass before this process accepts anything.
 */
const LAST_CALLS = { steps: 5, stepMs: 50 } as const

export interface AgentHandoverParts {
  readonly life: Life
  readonly clock: Clock
  readonly logger: Logger
  readonly staysWhenSucceeded: boolean
}

export class AgentHandover implements Handover {
  readonly #parts: AgentHandoverParts
  /** The departure that goes on, or was completed. */
  #leaving: object | undefined
  #hasLeft = false

  constructor(parts: AgentHandoverParts) {
    this.#parts = parts
  }

  isServing(): boolean {
    return this.#parts.life.phase === 'serving'
  }

  async release(): Promise<void> {
    const { life } = this.#parts
    life.sds?.endTakeover()
    await life.release()
  }

  reclaim(): void {
    this.#parts.life.reclaim()
  }

  async reclaimSockets(): Promise<void> {
    const { life } = this.#parts
    await life.sds?.reclaim()
    life.resume()
  }

  leave(): void {
    const { life, logger, staysWhenSucceeded } = this.#parts
    logger.info('another agent serves now: draining')
    void this.#leave().finally(() => {
      if (!this.#hasLeft) return
      if (staysWhenSucceeded) logger.info('drained: this process stays until it is stopped')
      else life.succession.resolve('succeeded')
    })
  }

  stay(): boolean {
    if (!this.#hasLeft) this.#leaving = undefined
    return !this.#hasLeft
  }

  end(): void {
    this.#parts.life.succession.resolve('successor-gone')
  }

  /** Ends what the successor does from now on, unless told to {@link stay}; the rest stays until the end, and answers probes. */
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
