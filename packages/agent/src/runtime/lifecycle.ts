/** Where the agent is in its life: its phase, the parts that serve, and all that its end disposes. */
import { type Clock, sleep } from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { Phase } from '../diagnosis/facts.ts'
import type { Outputs } from '../output/outputs.ts'
import type { AdminEndpoints } from './admin-endpoints.ts'
import type { ConfigReloader } from './config-reloader.ts'
import type { FollowedPods } from './followed-pods.ts'

/** The parts that exist only once the sockets are bound. */
interface ServingParts {
  readonly endpoints: AdminEndpoints
  readonly sds: SdsServer
  /** Absent if the agent was started without a way to load its configuration. */
  readonly reloader: ConfigReloader | undefined
  readonly outputs: Outputs
  /** Absent without a section `kubernetes`. */
  readonly pods: FollowedPods | undefined
}

/** Why an agent ends without a signal: another one serves in its place, or has stopped doing so. */
export type Succession = 'succeeded' | 'successor-gone'

/**
 * A caller that connected before a successor replaced the socket may not be accepted yet: closing it would turn that caller
 * away. In steps, because on a busy machine the whole wait can pass before this process accepts anything.
 */
const LAST_CALLS = { steps: 5, stepMs: 50 } as const

/** The admin endpoint answers in every phase, so it reads the phase and the serving parts from here. */
export class Lifecycle implements AsyncDisposable {
  /** Add each part when it is made: disposal is in reverse order. */
  readonly parts = new AsyncDisposableStack()
  readonly succession = Promise.withResolvers<Succession>()
  #phase: Phase = 'starting'
  #serving: ServingParts | undefined
  /** The handover that goes on, or was completed. */
  #handover: object | undefined
  #hasLeft = false
  #closing: Promise<void> | undefined

  get phase(): Phase {
    return this.#phase
  }

  /** `undefined` until the sockets are bound. */
  get serving(): ServingParts | undefined {
    return this.#serving
  }

  serve(serving: ServingParts): void {
    this.#serving = serving
    this.#phase = 'serving'
  }

  /** Whether a handover was completed. */
  get hasLeft(): boolean {
    return this.#hasLeft
  }

  /**
   * Drains, and then ends what a successor does from now on, unless told to {@link stay}; the rest stays until the end, and
   * answers probes.
   */
  async handOver(clock: Clock): Promise<void> {
    this.#phase = 'draining'
    if (!this.#serving) return
    const { sds, reloader, outputs, pods } = this.#serving
    const handover = {}
    this.#handover = handover
    for (let step = 0; step < LAST_CALLS.steps; step++) await sleep(clock, LAST_CALLS.stepMs)
    if (this.#handover === handover) await sds.handOver()
    if (this.#handover !== handover) return
    this.#hasLeft = true
    outputs[Symbol.dispose]()
    await Promise.all([reloader?.[Symbol.asyncDispose](), pods?.[Symbol.asyncDispose](), sds.close()])
  }

  /** Nothing ends by a handover that goes on. `false` if it was completed. */
  stay(): boolean {
    if (!this.#hasLeft) this.#handover = undefined
    return !this.#hasLeft
  }

  /** Serves again: the successor is gone, or was refused. Rejects with the error of a socket that cannot be taken back. */
  async takeBack(): Promise<void> {
    await this.#serving?.sds.reclaim()
    if (this.#closing === undefined && this.#serving) this.#phase = 'serving'
  }

  /** Further calls wait for the first. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#phase = 'draining'
    this.#closing ??= this.parts.disposeAsync()
    return this.#closing
  }
}
