/** The owner of a store: it listens on a socket in the store's directory, and hands over to a successor that asks there. */
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { after, type Clock } from '@livery/core/plugin'
import { asSocket, SdsServerError, SocketFile } from '@livery/sds-server'
import type { Logger } from '../observe/logger.ts'
import type { AgentHandover } from './agent-handover.ts'
import { MAX_LINE_BYTES, ownerSocket, parseStep, type Step, type StepAnswer } from './handover-steps.ts'

interface StoreOwnerOptions {
  readonly handover: Pick<AgentHandover, keyof AgentHandover>
  /** The directory of the store. */
  readonly directory: string
  /** Whether the previous owner, if any, has released the store to this agent. */
  readonly isSuccessor: boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Longest time of a handover, from the store to serving, milliseconds. */
const HANDOVER_MS = 60_000
/** Pause before another try to take things back: a successor that hangs still has them. */
const RECLAIM_MS = 1_000

export class StoreOwner implements AsyncDisposable {
  readonly #options: StoreOwnerOptions
  #file: SocketFile | undefined
  #successor: Succession | undefined
  #reclaiming: Disposable | undefined
  /** Whether a successor still has what it was given. */
  #isReleased = false
  #isEnding = false

  private constructor(options: StoreOwnerOptions, file: SocketFile | undefined) {
    this.#options = options
    this.#file = file
  }

  /**
   * Rejects with an `Error` that names the remedy if another agent owns the store. If nobody can listen there, as on a
   * read-only disk, there is no handover, which is logged.
   */
  static async listen(options: StoreOwnerOptions): Promise<StoreOwner> {
    let owner: StoreOwner | undefined
    const file = await listenAt(options, options.isSuccessor, socket => {
      if (owner) owner.#serve(socket)
      else socket.destroy()
    })
    owner = new StoreOwner(options, file)
    return owner
  }

  /** Releases the store first: the next agent must not find it half written. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true
    this.#reclaiming?.[Symbol.dispose]()
    this.#successor?.keep()
    await this.#options.handover.release()
    await this.#file?.close()
    this.#successor?.end()
  }

  #serve(socket: Socket): void {
    // A client that leaves at once would otherwise cause an uncaught exception.
    socket.on('error', () => {})
    const succession: Succession = new Succession(socket, {
      ...this.#options,
      begin: () => this.#begin(succession),
      release: () => this.#release(),
      successorEnded: hasServed => this.#successorEnded(hasServed),
    })
    socket.once('close', () => {
      if (this.#successor === succession) this.#successor = undefined
    })
  }

  /** A succession begins with the first step, not with the connection: others connect only to see whether somebody listens. */
  #begin(succession: Succession): string | undefined {
    if (this.#successor === succession) return undefined
    if (this.#successor) return 'another agent is taking over already'
    if (this.#isReleased) return 'it takes back what another agent had'
    if (this.#isEnding || !this.#options.handover.isServing()) return 'it does not serve yet, or no longer'
    this.#successor = succession
    return undefined
  }

  /** Listens until the successor has replaced its socket: a third agent must not find the store without an owner. */
  async #release(): Promise<void> {
    this.#isReleased = true
    await this.#options.handover.release()
  }

  async #successorEnded(hasServed: boolean): Promise<void> {
    if (this.#isEnding) return
    const { logger, handover } = this.#options
    if (hasServed && !handover.stay()) {
      handover.end()
      return
    }
    const when = hasServed ? 'while this one drained' : 'before it served'
    logger.error(`the agent that was taking over ended ${when}: this one continues`)
    if (!hasServed) await handover.reclaimSockets()
    await this.#reclaim(hasServed)
  }

  /** Takes back the store once the successor has ended: one that hangs keeps it. */
  async #reclaim(hasServed: boolean): Promise<void> {
    const { handover, logger, clock } = this.#options
    if (this.#isEnding) return
    try {
      await this.#file?.close()
      this.#file = await listenAt(this.#options, false, socket => this.#serve(socket))
      if (hasServed) await handover.reclaimSockets()
      handover.reclaim()
      this.#isReleased = false
      logger.info('all that the other agent was given is taken back')
    } catch (err) {
      // Another agent may have followed a successor that served, and then has the sockets.
      if (hasServed && err instanceof StoreOwnedError) {
        handover.leave()
        return
      }
      logger.error({ err }, 'not all could be taken back from the agent that was taking over')
      this.#reclaiming = after(clock, RECLAIM_MS, () => void this.#reclaim(hasServed))
    }
  }
}

class StoreOwnedError extends Error {}

async function listenAt(
  { directory, clock, logger }: StoreOwnerOptions,
  takeover: boolean,
  onConnection: (socket: Socket) => void,
): Promise<SocketFile | undefined> {
  const path = ownerSocket(directory)
  try {
    return await SocketFile.listen({
      path,
      mode: 0o600,
      takeover,
      clock,
      onArrival: asSocket(onConnection),
      onEvent: event => {
        // Only a process of this user can have done it: the successor.
        if (event.kind === 'socket-superseded') return
        const fields = { event: event.kind, path, ...('error' in event && { err: event.error }) }
        logger.warn(fields, `${path}, where a successor takes over, was disturbed`)
      },
    })
  } catch (error) {
    if (!(error instanceof SdsServerError) || error.code !== 'live-owner') {
      logger.warn({ err: error }, `no agent can take over from this one: it cannot listen on ${path}`)
      return undefined
    }
    throw new StoreOwnedError(
      `Cannot use the store in ${directory}: another agent owns it. Stop that one, or start this one with --takeover`,
      { cause: error },
    )
  }
}

interface SuccessionOptions extends Pick<StoreOwnerOptions, 'handover' | 'clock' | 'logger'> {
  release(): Promise<void>
  /** The reason why the handover cannot begin, or continue. */
  begin(): string | undefined
  /** The successor ended after its first step. */
  successorEnded(hasServed: boolean): Promise<void>
}

/** One successor on its connection, from its first step to the end of either process. */
class Succession {
  readonly #socket: Socket
  readonly #options: SuccessionOptions
  readonly #late: Disposable
  #reached: Step | undefined
  /** Steps run one after the other. */
  #work: Promise<void> = Promise.resolve()
  #isEnding = false

  constructor(socket: Socket, options: SuccessionOptions) {
    this.#socket = socket
    this.#options = options
    this.#late = after(options.clock, HANDOVER_MS, () => this.#onLate())
    let bytes = 0
    socket.on('data', chunk => {
      bytes += chunk.length
      if (bytes > MAX_LINE_BYTES) socket.destroy()
    })
    // `readline` passes on the errors of the socket.
    createInterface({ input: socket })
      .on('line', line => this.#onLine(line))
      .on('error', () => {})
    socket.once('close', () => this.#then(() => this.#onClose()))
  }

  /** This agent ends: nothing can be taken back any more. */
  keep(): void {
    this.#isEnding = true
    this.#late[Symbol.dispose]()
  }

  /** Shows the successor that it owns everything. */
  end(): void {
    this.#socket.destroy()
  }

  /** Shows the successor that it must not serve. */
  #refuse(reason: string): void {
    answer(this.#socket, { failed: reason })
    this.#socket.destroySoon()
  }

  #then(task: () => Promise<void>): void {
    this.#work = this.#work.then(task).catch((err: unknown) => {
      this.#options.logger.error({ err }, 'the handover to another agent failed')
      this.#refuse('it could not do the step: its log says why')
    })
  }

  #onLine(line: string): void {
    const step = parseStep(line)
    if (!step)
      answer(this.#socket, { failed: 'this step is not known here: the two agents may be of different versions' })
    else this.#then(() => this.#take(step))
  }

  async #take(step: Step): Promise<void> {
    if (this.#socket.destroyed) return
    const { logger, begin, release, handover } = this.#options
    const reason = begin()
    if (reason !== undefined) {
      this.#refuse(reason)
      return
    }
    // Set first, so that a half-done step is undone.
    this.#reached = step
    if (step === 'store') {
      logger.info('another agent takes over: it gets the store, and the sockets when it is ready')
      await release()
    } else {
      this.#late[Symbol.dispose]()
      handover.leave()
    }
    answer(this.#socket, { done: step })
  }

  async #onClose(): Promise<void> {
    this.#late[Symbol.dispose]()
    if (this.#isEnding || !this.#reached) return
    await this.#options.successorEnded(this.#reached === 'serving')
  }

  #onLate(): void {
    if (!this.#reached) {
      this.#socket.destroy()
      return
    }
    this.#options.logger.error(`the agent that takes over does not serve after ${HANDOVER_MS / 1_000} s: it is refused`)
    this.#refuse(`it does not serve after ${HANDOVER_MS / 1_000} s`)
  }
}

function answer(socket: Socket, message: StepAnswer): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(message)}\n`)
}
