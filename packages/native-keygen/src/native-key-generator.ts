/** The key generator in Rust. */
import type { GeneratedKey, KeyGenerator, KeyRequest } from '@livery/core/plugin'
import type { Addon } from './addon.ts'
import { DEFAULT_RSA_KEYS, type RsaKeys } from './defaults.ts'
import { type JobQueue, jobQueueOf } from './job-queue.ts'
import { checkKeyRequest, checkKeyRequests } from './key-request.ts'
import { chooseRsaKeys } from './rsa-keys.ts'

/**
 * Keys are made on the addon's threads, one per core for the whole process, in turns: a single key does not wait behind a
 * batch. An abort is answered at once, and its work stops within milliseconds.
 */
export class NativeKeyGenerator implements KeyGenerator {
  readonly name = 'native'
  readonly #queue: JobQueue
  /** Why RSA keys are not made by `rsaKeys`. Absent if they are. */
  readonly rsaReason?: string
  readonly #rsaKeys: RsaKeys

  /** Throws a `TypeError` for a way to make RSA keys that it does not know. */
  constructor(addon: Addon, rsaKeys: RsaKeys = DEFAULT_RSA_KEYS) {
    this.#queue = jobQueueOf(addon)
    const { method, reason } = chooseRsaKeys(rsaKeys, addon)
    this.#rsaKeys = method
    if (reason !== undefined) this.rsaReason = reason
  }

  async generate(request: KeyRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<GeneratedKey> {
    const checked = checkKeyRequest(request)
    signal?.throwIfAborted()
    return this.#queue.generate(checked, this.#rsaKeys, signal)
  }

  async generateBatch(
    requests: readonly KeyRequest[],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<readonly GeneratedKey[]> {
    const checked = await checkKeyRequests(requests)
    signal?.throwIfAborted()
    if (checked.length === 0) return []
    return this.#queue.generateBatch(checked, this.#rsaKeys, signal)
  }
}
