/** Brings work to the addon's threads: `rust/bridge.rs` is the other side. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { GeneratedKey, KeyRequest } from '@livery/core/plugin'
import { unlessAborted } from './abandon.ts'
import type { Addon } from './addon.ts'
import type { RsaKeys } from './defaults.ts'
import type { ChainFacts, ChainQuestion, UnreadableChain } from './gen/binding.ts'
import { wipe, wipeAll } from './wipe.ts'

/** A request that travels with others, but succeeds or fails separately. */
interface Gathered {
  readonly request: Required<KeyRequest>
  readonly resolve: (key: GeneratedKey) => void
  readonly reject: (error: unknown) => void
}

/** The most answers in one job, and in one turn of the event loop: their continuations run in the same turn. */
const MOST_ANSWERS = 64

/** One per environment, above the threads of the whole process. */
export class JobQueue {
  readonly #native: InstanceType<Addon['JobQueue']>
  /** Sent at the end of the turn. */
  #gathered: Gathered[] = []
  #lastJob = 0
  /** Answers that this turn has settled. */
  #settled = 0

  constructor(addon: Addon) {
    this.#native = new addon.JobQueue()
    process.once('exit', () => this.#native.close())
  }

  async generate(request: Required<KeyRequest>, rsaKeys: RsaKeys, signal?: AbortSignal): Promise<GeneratedKey> {
    if (!request.type.startsWith('rsa')) return this.#generateWithOthers(request, signal)
    const [key] = await this.generateBatch([request], rsaKeys, signal)
    if (!key) throw new Error('Cannot generate a key: the addon made none')
    return key
  }

  /** Gathers keys, since waking a thread costs as much as an ECDSA key, which is made sooner than an abort could come. */
  #generateWithOthers(request: Required<KeyRequest>, signal?: AbortSignal): Promise<GeneratedKey> {
    const { promise, resolve, reject } = Promise.withResolvers<GeneratedKey>()
    if (this.#gathered.length === 0) setImmediate(() => this.#makeGathered())
    this.#gathered.push({ request, resolve, reject })
    return unlessAborted(signal, promise, { discard: wipe })
  }

  #makeGathered(): void {
    const gathered = this.#gathered
    this.#gathered = []
    for (const part of partsOf(gathered)) void this.#makeTogether(part)
  }

  async #makeTogether(gathered: readonly Gathered[]): Promise<void> {
    try {
      const requests = gathered.map(({ request }) => request)
      const keys = await this.#make(requests, 'library')
      for (const [index, key] of keys.entries()) gathered[index]?.resolve(key)
    } catch (error) {
      // One request that fails must not fail the others.
      if (gathered.length > 1) for (const one of gathered) void this.#makeTogether([one])
      else for (const { reject } of gathered) reject(error)
    }
  }

  generateBatch(
    requests: readonly Required<KeyRequest>[],
    rsaKeys: RsaKeys,
    signal?: AbortSignal,
  ): Promise<readonly GeneratedKey[]> {
    const stop = new AbortController()
    const keys = this.#makeAll(requests, rsaKeys, stop)
    return unlessAborted(signal, keys, { stop: () => stop.abort(), discard: wipeAll })
  }

  /** Two parts at a time: one is made while the other is taken in. */
  async #makeAll(
    requests: readonly Required<KeyRequest>[],
    rsaKeys: RsaKeys,
    stop: AbortController,
  ): Promise<readonly GeneratedKey[]> {
    const keys: GeneratedKey[][] = []
    const turns = partsOf(requests).entries()
    const takeTurns = async () => {
      for (const [index, part] of turns) {
        if (stop.signal.aborted) return
        keys[index] = await this.#make(part, rsaKeys, stop.signal)
      }
    }
    await Promise.all([takeTurns(), takeTurns()].map(end => end.catch(problem => stop.abort(problem))))
    if (!stop.signal.aborted) return keys.flat()
    keys.forEach(wipeAll)
    throw stop.signal.reason
  }

  async #make(
    requests: readonly Required<KeyRequest>[],
    rsaKeys: RsaKeys,
    signal?: AbortSignal,
  ): Promise<GeneratedKey[]> {
    const job = ++this.#lastJob
    const keys = this.#native.generateKeys(
      job,
      requests.map(request => ({ ...request, dnsNames: [...request.dnsNames] })),
      rsaKeys,
    )
    signal?.addEventListener('abort', () => this.#native.cancel(job), { once: true })
    return this.#inTurn(await keys)
  }

  async readChains(questions: readonly ChainQuestion[]): Promise<(ChainFacts | UnreadableChain)[]> {
    return this.#inTurn(await this.#native.readChains(++this.#lastJob, [...questions]))
  }

  async #inTurn<Answer>(answers: Answer[]): Promise<Answer[]> {
    while (this.#settled > 0 && this.#settled + answers.length > MOST_ANSWERS) await nextTurn()
    if (this.#settled === 0)
      setImmediate(() => {
        this.#settled = 0
      })
    this.#settled += answers.length
    return answers
  }
}

export function partsOf<Item>(items: readonly Item[]): Item[][] {
  const count = Math.ceil(items.length / MOST_ANSWERS)
  return Array.from({ length: count }, (_, part) => items.slice(part * MOST_ANSWERS, (part + 1) * MOST_ANSWERS))
}

const queues = new WeakMap<Addon, JobQueue>()

/** The queue of this environment. */
export function jobQueueOf(addon: Addon): JobQueue {
  const known = queues.get(addon)
  if (known) return known
  const queue = new JobQueue(addon)
  queues.set(addon, queue)
  return queue
}
