/** The key generator in Rust, and its pool of keys made ahead. */
import type { GeneratedKey, KeyGenerator, KeyPoolStatus, KeyRequest, KeyType } from '@livery/core'
import { KEY_TYPES } from '@livery/core'
import type { Addon } from './addon.ts'
import { DEFAULT_POOL_CPU, DEFAULT_RSA_KEYS, type RsaKeys } from './defaults.ts'
import { type JobQueue, jobQueueOf, type NativePool } from './job-queue.ts'
import { checkKeyRequest, checkKeyRequests } from './key-request.ts'
import { chooseRsaKeys } from './rsa-keys.ts'

export interface KeyPoolOptions {
  /** Share of one core that making keys ahead may use, above 0 and at most 1. Default: 0.25. */
  readonly cpu?: number
}

export interface NativeKeyGeneratorOptions {
  /** The pool of keys made ahead. `false`: none. Default: `{ cpu: 0.25 }`. */
  readonly pool?: KeyPoolOptions | false
  /** How RSA keys are made. A CPU that cannot run `simd` runs `search`. Default: `simd`. */
  readonly rsaKeys?: RsaKeys
}

/**
 * Keys are made on threads of their own, as many as there are cores for the whole process, in turns: a single key does
 * not wait behind a batch. An abort is answered at once, and its work stops within milliseconds.
 */
export class NativeKeyGenerator implements KeyGenerator, Disposable {
  readonly name = 'native'
  /** Absent without a pool, as `pool` is. `count` above 1,024 counts as 1,024; 0 wipes what is there. */
  readonly prepare?: (type: KeyType, count: number) => void
  readonly pool?: () => readonly KeyPoolStatus[]
  readonly #queue: JobQueue
  readonly #pool: NativePool | undefined
  /** Why RSA keys are made in another way than `rsaKeys`. Absent if they are not. */
  readonly rsaReason?: string
  readonly #rsaKeys: RsaKeys

  /** Throws a `TypeError` for options it does not understand. */
  constructor(addon: Addon, { pool: options = {}, rsaKeys = DEFAULT_RSA_KEYS }: NativeKeyGeneratorOptions = {}) {
    this.#queue = jobQueueOf(addon)
    const { method, reason } = chooseRsaKeys(rsaKeys, addon)
    this.#rsaKeys = method
    if (reason !== undefined) this.rsaReason = reason
    if (!options) return
    const pool = this.#queue.createPool(checkCpu(options.cpu ?? DEFAULT_POOL_CPU), method)
    this.#pool = pool
    this.prepare = (type, count) => pool.prepare(placeOf(type), checkCount(count))
    this.pool = () => statusOf(pool)
  }

  async generate(request: KeyRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<GeneratedKey> {
    const checked = checkKeyRequest(request)
    signal?.throwIfAborted()
    return this.#queue.generate(checked, { signal, pool: this.#pool, rsaKeys: this.#rsaKeys })
  }

  async generateBatch(
    requests: readonly KeyRequest[],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<readonly GeneratedKey[]> {
    const checked = await checkKeyRequests(requests)
    signal?.throwIfAborted()
    if (checked.length === 0) return []
    return this.#queue.generateBatch(checked, { signal, pool: this.#pool, rsaKeys: this.#rsaKeys })
  }

  /**
   * Has the pool's thread wipe its keys and end, when it has a core: that is waited for only when the environment ends.
   * Keys are made when they are asked for from then on.
   */
  [Symbol.dispose](): void {
    this.#pool?.stop()
  }
}

function statusOf(pool: NativePool): readonly KeyPoolStatus[] {
  return KEY_TYPES.flatMap((type, place) => {
    const status = pool.status(place)
    return status ? [{ type, ...status, oldestAgeMs: status.oldestAgeMs }] : []
  })
}

function checkCpu(cpu: number): number {
  if (typeof cpu === 'number' && cpu > 0 && cpu <= 1) return cpu
  throw new TypeError(
    `Cannot make a key pool: pool.cpu is ${cpu}; it must be a share of one core, above 0 and at most 1`,
  )
}

function placeOf(type: KeyType): number {
  const place = KEY_TYPES.indexOf(type)
  if (place !== -1) return place
  throw new TypeError(`Cannot prepare keys: type is ${JSON.stringify(type)}; it must be one of ${KEY_TYPES.join(', ')}`)
}

function checkCount(count: number): number {
  if (Number.isSafeInteger(count) && count >= 0) return Math.min(count, 2 ** 32 - 1)
  throw new TypeError(`Cannot prepare keys: count is ${count}; it must be a whole number, 0 or above`)
}
