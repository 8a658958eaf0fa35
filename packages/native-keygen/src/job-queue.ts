/** Brings work to the addon's threads, and its results back: `rust/bridge.rs` is the other side. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type GeneratedKey, KEY_TYPES, type KeyRequest } from '@livery/core'
import { unlessAborted } from './abandon.ts'
import type { Addon } from './addon.ts'
import { RSA_KEYS, type RsaKeys } from './defaults.ts'
import type { ChainQuestion } from './gen/binding.ts'
import { wipe, wipeAll } from './wipe.ts'

interface Options {
  readonly signal: AbortSignal | undefined
  readonly rsaKeys: RsaKeys
}

/** An answer where it is on the page until that is wiped: where its parts start, and how long they are. */
interface Answer {
  readonly page: Uint8Array
  readonly start: number
  readonly lengths: readonly [number, number, number]
}

/** The caller that waits for a job. */
interface Waiting {
  /** Takes the answer to the request at `index`; `true` if nothing is missing any more. */
  readonly receive: (index: number, answer: Answer) => boolean
  /** The same, where there is none. */
  readonly fail: (index: number, error: Error) => boolean
}

/** A request that travels with others, whose fate is their own. */
interface Gathered<Request, Result> {
  readonly request: Request
  readonly resolve: (result: Result) => void
  readonly reject: (error: Error) => void
}

/** 32-bit words: the number of records at the start of the page, and the header of each. */
const WORD = 4
const HEADER_WORDS = 6
const PAGE_BYTES = 128 * 1024
const STATUS = { done: 0, wrongInput: 1 }

/**
 * One an environment: the threads under it are those of the whole process. Answers come many at a time, and at most as many
 * in one turn of the event loop as fit on a page; the page is wiped at once.
 */
export class JobQueue {
  readonly #native: InstanceType<Addon['JobQueue']>
  readonly #jobs = new Map<number, Waiting>()
  readonly #page = new Uint8Array(PAGE_BYTES)
  readonly #words = new Uint32Array(this.#page.buffer)
  /** Sent at the end of the turn. */
  #gathered: Gathered<Required<KeyRequest>, GeneratedKey>[] = []
  #lastJob = 0

  constructor(addon: Addon) {
    this.#native = new addon.JobQueue(() => this.#receive())
    process.once('exit', () => this.#native.close())
  }

  generate(request: Required<KeyRequest>, options: Options): Promise<GeneratedKey> {
    return request.type.startsWith('rsa')
      ? this.#generateAlone(request, options)
      : this.#generateWithOthers(request, options)
  }

  /** Waking a thread costs as much as an ECDSA key, which is made sooner than anybody would stop it. */
  #generateWithOthers(request: Required<KeyRequest>, { signal }: Options): Promise<GeneratedKey> {
    const { promise, resolve, reject } = Promise.withResolvers<GeneratedKey>()
    if (this.#gathered.length === 0) setImmediate(() => this.#makeGathered())
    this.#gathered.push({ request, resolve, reject })
    return unlessAborted(signal, promise, { discard: wipe })
  }

  #makeGathered(): void {
    const gathered = this.#gathered
    this.#gathered = []
    const requests = gathered.map(({ request }) => request)
    this.#sendGathered(this.#keys(requests), gathered, keyIn)
  }

  #generateAlone(request: Required<KeyRequest>, { signal, rsaKeys }: Options): Promise<GeneratedKey> {
    const { promise, resolve, reject } = Promise.withResolvers<GeneratedKey>()
    const receive = (_: number, answer: Answer) => {
      resolve(keyIn(answer))
      return true
    }
    const fail = (_: number, error: Error) => {
      reject(error)
      return true
    }
    const job = this.#send(this.#keys([request], rsaKeys), { receive, fail })
    return unlessAborted(signal, promise, { stop: () => this.#cancel(job), discard: wipe })
  }

  generateBatch(
    requests: readonly Required<KeyRequest>[],
    { signal, rsaKeys }: Options,
  ): Promise<readonly GeneratedKey[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly GeneratedKey[]>()
    const keys: GeneratedKey[] = []
    let missing = requests.length
    const receive = (index: number, answer: Answer) => {
      keys[index] = keyIn(answer)
      missing -= 1
      if (missing === 0) resolve(keys)
      return missing === 0
    }
    const fail = (_: number, error: Error) => {
      wipeAll(keys)
      reject(error)
      return true
    }
    const job = this.#send(this.#keys(requests, rsaKeys), { receive, fail })
    return unlessAborted(signal, promise, { stop: () => this.#cancel(job), discard: wipeAll })
  }

  /** Each is resolved with its record, which is wiped when `resolve` returns to the queue. */
  readChains(gathered: readonly Gathered<ChainQuestion, Uint8Array>[]): void {
    const questions = gathered.map(({ request }) => request)
    this.#sendGathered(job => this.#native.submitChains(job, questions), gathered, firstIn)
  }

  #sendGathered<Result>(
    submit: (job: number) => void,
    gathered: readonly Gathered<unknown, Result>[],
    resultIn: (answer: Answer) => Result,
  ): void {
    let missing = gathered.length
    const receive = (index: number, answer: Answer) => {
      gathered[index]?.resolve(resultIn(answer))
      return --missing === 0
    }
    const fail = (index: number, error: Error) => {
      gathered[index]?.reject(error)
      return --missing === 0
    }
    try {
      this.#send(submit, { receive, fail })
    } catch (error) {
      for (const { reject } of gathered) reject(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** Submits requests for keys. `rsaKeys` may be absent where none is for an RSA key. */
  #keys(requests: readonly Required<KeyRequest>[], rsaKeys: RsaKeys = 'library'): (job: number) => void {
    const identities = requests.map(({ identity }) => identity).join('\n')
    const codes = Uint8Array.from(requests, request => codeOf(request, rsaKeys))
    return job => this.#native.submit(job, codes, identities)
  }

  #send(submit: (job: number) => void, waiting: Waiting): number {
    do this.#lastJob = (this.#lastJob + 1) >>> 0
    while (this.#jobs.has(this.#lastJob))
    submit(this.#lastJob)
    if (this.#jobs.size === 0) this.#native.keepAlive(true)
    this.#jobs.set(this.#lastJob, waiting)
    return this.#lastJob
  }

  #cancel(job: number): void {
    const waiting = this.#end(job)
    if (!waiting) return
    this.#native.cancel(job)
    waiting.fail(0, new Error('Cancelled'))
  }

  #end(job: number): Waiting | undefined {
    const waiting = this.#jobs.get(job)
    if (this.#jobs.delete(job) && this.#jobs.size === 0) this.#native.keepAlive(false)
    return waiting
  }

  /** Takes in all that is finished, a page in each turn of the event loop. */
  async #receive(): Promise<void> {
    while (this.#receivePage()) await nextTurn()
  }

  /** Whether there is more. */
  #receivePage(): boolean {
    const hasMore = this.#native.drain(this.#page)
    let word = 1
    for (let left = this.#words[0] ?? 0; left > 0; left--) word = this.#receiveRecord(word)
    this.#page.fill(0, 0, word * WORD)
    return hasMore
  }

  /** Where the next record starts. A job that is not here any more was cancelled. */
  #receiveRecord(start: number): number {
    // One by one: an iterator would make an object for each.
    const word = (place: number) => this.#words[start + place] ?? 0
    const job = word(0)
    const index = word(1)
    const status = word(2)
    const first = word(3)
    const second = word(4)
    const third = word(5)
    const answer: Answer = {
      page: this.#page,
      start: (start + HEADER_WORDS) * WORD,
      lengths: [first, second, third],
    }
    const isDone = status === STATUS.done
    const waiting = this.#jobs.get(job)
    const isOver = isDone ? waiting?.receive(index, answer) : waiting?.fail(index, problemIn(answer, status))
    if (isOver) this.#end(job)
    // A batch is over with its first problem: the rest of it need not be made.
    if (isOver && !isDone) this.#native.cancel(job)
    return start + HEADER_WORDS + (wholeWords(first) + wholeWords(second) + wholeWords(third)) / WORD
  }
}

/** One allocation for what is public, and one for what its owner will wipe. */
function keyIn({ page, start, lengths: [secret, csr, publicKey] }: Answer): GeneratedKey {
  const csrStart = start + wholeWords(secret)
  const publicKeyStart = csrStart + wholeWords(csr)
  const publicParts = page.slice(csrStart, publicKeyStart + publicKey)
  return {
    privateKeyPem: page.slice(start, start + secret),
    csrDer: publicParts.subarray(0, csr),
    publicKeyDer: publicParts.subarray(publicKeyStart - csrStart),
  }
}

/** The first part alone. */
function firstIn({ page, start, lengths: [length] }: Answer): Uint8Array {
  return page.subarray(start, start + length)
}

function wholeWords(bytes: number): number {
  return Math.ceil(bytes / WORD) * WORD
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

function codeOf({ type, format }: Required<KeyRequest>, rsaKeys: RsaKeys): number {
  return 16 * RSA_KEYS.indexOf(rsaKeys) + 2 * KEY_TYPES.indexOf(type) + (format === 'traditional' ? 1 : 0)
}

function problemIn(answer: Answer, status: number | undefined): Error {
  const code = status === STATUS.wrongInput ? 'InvalidArg' : 'GenericFailure'
  return Object.assign(new Error(new TextDecoder().decode(firstIn(answer))), { code })
}
