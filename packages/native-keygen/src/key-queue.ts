/** Brings key requests to the addon's threads and their keys back: `rust/bridge.rs` is the other side. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type GeneratedKey, KEY_TYPES, type KeyRequest } from '@livery/core'
import { unlessAborted } from './abandon.ts'
import type { Addon } from './addon.ts'
import { RSA_KEYS, type RsaKeys } from './defaults.ts'
import { wipe, wipeAll } from './wipe.ts'

export type NativePool = InstanceType<Addon['KeyPool']>

interface Options {
  readonly signal: AbortSignal | undefined
  /** Its keys are used first. */
  readonly pool: NativePool | undefined
  readonly rsaKeys: RsaKeys
}

/** The caller that waits for a job. */
interface Waiting {
  /** Takes the key of the request at `index`; `true` if nothing is missing any more. */
  readonly receive: (index: number, key: GeneratedKey) => boolean
  /** The same, where there is none. */
  readonly fail: (index: number, error: Error) => boolean
}

/** A request that goes with others of its turn of the event loop. */
interface Gathered {
  readonly request: Required<KeyRequest>
  readonly resolve: (key: GeneratedKey) => void
  readonly reject: (error: Error) => void
}

/** 32-bit words: the number of records at the start of the page, and the header of each. */
const WORD = 4
const HEADER_WORDS = 6
const PAGE_BYTES = 64 * 1024
const STATUS = { done: 0, wrongInput: 1 }

/**
 * One an environment: the threads under it are those of the whole process. Keys come many at a time, and at most as many
 * in one turn of the event loop as fit on a page; the page is wiped at once.
 */
export class KeyQueue {
  readonly #addon: Addon
  readonly #native: InstanceType<Addon['KeyQueue']>
  readonly #jobs = new Map<number, Waiting>()
  readonly #page = new Uint8Array(PAGE_BYTES)
  readonly #words = new Uint32Array(this.#page.buffer)
  /** By their pool; sent at the end of the turn. */
  readonly #gathered = new Map<NativePool | undefined, Gathered[]>()
  #lastJob = 0

  constructor(addon: Addon) {
    this.#addon = addon
    this.#native = new addon.KeyQueue(() => this.#receive())
    process.once('exit', () => this.#native.close())
  }

  /** `cpu` as in `KeyPoolOptions`. */
  createPool(cpu: number, rsaKeys: RsaKeys): NativePool {
    return new this.#addon.KeyPool(this.#native, cpu, RSA_KEYS.indexOf(rsaKeys))
  }

  generate(request: Required<KeyRequest>, options: Options): Promise<GeneratedKey> {
    return request.type.startsWith('rsa')
      ? this.#generateAlone(request, options)
      : this.#generateWithOthers(request, options)
  }

  /** Waking a thread costs as much as an ECDSA key, which is made sooner than anybody would stop it. */
  #generateWithOthers(request: Required<KeyRequest>, { signal, pool }: Options): Promise<GeneratedKey> {
    const { promise, resolve, reject } = Promise.withResolvers<GeneratedKey>()
    const gathered = this.#gathered.get(pool)
    if (gathered) gathered.push({ request, resolve, reject })
    else {
      this.#gathered.set(pool, [{ request, resolve, reject }])
      setImmediate(() => this.#sendGathered(pool))
    }
    return unlessAborted(signal, promise, { discard: wipe })
  }

  #sendGathered(pool: NativePool | undefined): void {
    const gathered = this.#gathered.get(pool) ?? []
    this.#gathered.delete(pool)
    let missing = gathered.length
    const receive = (index: number, key: GeneratedKey) => {
      gathered[index]?.resolve(key)
      return --missing === 0
    }
    const fail = (index: number, error: Error) => {
      gathered[index]?.reject(error)
      return --missing === 0
    }
    try {
      this.#send(
        gathered.map(({ request }) => request),
        { pool },
        { receive, fail },
      )
    } catch (error) {
      for (const { reject } of gathered) reject(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #generateAlone(request: Required<KeyRequest>, { signal, pool, rsaKeys }: Options): Promise<GeneratedKey> {
    const { promise, resolve, reject } = Promise.withResolvers<GeneratedKey>()
    const receive = (_: number, key: GeneratedKey) => {
      resolve(key)
      return true
    }
    const fail = (_: number, error: Error) => {
      reject(error)
      return true
    }
    const job = this.#send([request], { pool, rsaKeys }, { receive, fail })
    return unlessAborted(signal, promise, { stop: () => this.#cancel(job), discard: wipe })
  }

  generateBatch(
    requests: readonly Required<KeyRequest>[],
    { signal, pool, rsaKeys }: Options,
  ): Promise<readonly GeneratedKey[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly GeneratedKey[]>()
    const keys: GeneratedKey[] = []
    let missing = requests.length
    const receive = (index: number, key: GeneratedKey) => {
      keys[index] = key
      missing -= 1
      if (missing === 0) resolve(keys)
      return missing === 0
    }
    const fail = (_: number, error: Error) => {
      wipeAll(keys)
      reject(error)
      return true
    }
    const job = this.#send(requests, { pool, rsaKeys }, { receive, fail })
    return unlessAborted(signal, promise, { stop: () => this.#cancel(job), discard: wipeAll })
  }

  /** `rsaKeys` may be absent where no request is for an RSA key. */
  #send(
    requests: readonly Required<KeyRequest>[],
    { pool, rsaKeys = 'library' }: Pick<Options, 'pool'> & { readonly rsaKeys?: RsaKeys },
    waiting: Waiting,
  ): number {
    do this.#lastJob = (this.#lastJob + 1) >>> 0
    while (this.#jobs.has(this.#lastJob))
    const identities = requests.map(({ identity }) => identity).join('\n')
    this.#native.submit(
      this.#lastJob,
      Uint8Array.from(requests, request => codeOf(request, rsaKeys)),
      identities,
      pool,
    )
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
    const [job = 0, index = 0, status, secret = 0, csr = 0, publicKey = 0] = this.#words.subarray(
      start,
      start + HEADER_WORDS,
    )
    const secretStart = (start + HEADER_WORDS) * WORD
    const csrStart = secretStart + wholeWords(secret)
    const publicKeyStart = csrStart + wholeWords(csr)
    const waiting = this.#jobs.get(job)
    if (waiting) {
      // One allocation for what is public, and one for what its owner will wipe.
      const privateKeyPem = this.#page.slice(secretStart, secretStart + secret)
      const publicParts = this.#page.slice(csrStart, publicKeyStart + publicKey)
      const csrDer = publicParts.subarray(0, csr)
      const publicKeyDer = publicParts.subarray(publicKeyStart - csrStart)
      const isDone =
        status === STATUS.done
          ? waiting.receive(index, { privateKeyPem, csrDer, publicKeyDer })
          : waiting.fail(index, problem(privateKeyPem, status))
      if (isDone) this.#end(job)
    }
    return (publicKeyStart + wholeWords(publicKey)) / WORD
  }
}

function wholeWords(bytes: number): number {
  return Math.ceil(bytes / WORD) * WORD
}

const queues = new WeakMap<Addon, KeyQueue>()

/** The queue of this environment. */
export function keyQueueOf(addon: Addon): KeyQueue {
  const known = queues.get(addon)
  if (known) return known
  const queue = new KeyQueue(addon)
  queues.set(addon, queue)
  return queue
}

function codeOf({ type, format }: Required<KeyRequest>, rsaKeys: RsaKeys): number {
  return 16 * RSA_KEYS.indexOf(rsaKeys) + 2 * KEY_TYPES.indexOf(type) + (format === 'traditional' ? 1 : 0)
}

function problem(message: Uint8Array, status: number | undefined): Error {
  const code = status === STATUS.wrongInput ? 'InvalidArg' : 'GenericFailure'
  return Object.assign(new Error(new TextDecoder().decode(message)), { code })
}
