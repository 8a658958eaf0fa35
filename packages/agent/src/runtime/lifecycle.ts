/** Where the agent is in its life: its phase, the parts that serve, and all that its end disposes. */
import type { SdsServer } from '@livery/sds-server'
import type { Phase } from '../admin/readiness.ts'
import type { ConfigReloader } from './config-reloader.ts'

/** The parts that exist only once the sockets are bound. */
export interface ServingParts {
  readonly sds: SdsServer
  /** Absent if the agent was started without a way to load its configuration. */
  readonly reloader: ConfigReloader | undefined
}

/** The admin endpoint answers in every phase, so it reads the phase and the serving parts from here. */
export class Lifecycle implements AsyncDisposable {
  /** Add each part when it is made: disposal is in reverse order. */
  readonly parts = new AsyncDisposableStack()
  #phase: Phase = 'starting'
  #serving: ServingParts | undefined
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

  /** Further calls wait for the first. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#phase = 'draining'
    this.#closing ??= this.parts.disposeAsync()
    return this.#closing
  }
}
