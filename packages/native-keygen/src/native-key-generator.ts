/** The key generator in Rust: `rust/bridge.rs` is the other side. */
import type { GeneratedKey, KeyGenerator, KeyRequest } from '@livery/core'
import { unlessAborted } from './abandon.ts'
import type { Addon } from './addon.ts'
import { checkKeyRequest, checkKeyRequests } from './key-request.ts'
import { wipe, wipeAll } from './wipe.ts'

/**
 * A single key is made on libuv's thread pool, a batch on threads of its own, one a core. An abort is answered at
 * once, and its work stops within milliseconds.
 */
export class NativeKeyGenerator implements KeyGenerator {
  readonly name = 'native'
  readonly #addon: Addon

  constructor(addon: Addon) {
    this.#addon = addon
  }

  async generate(request: KeyRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<GeneratedKey> {
    const checked = checkKeyRequest(request)
    signal?.throwIfAborted()
    const cancellation = this.#cancellationFor(signal)
    return unlessAborted(signal, this.#addon.generateKey(checked, cancellation), {
      stop: () => cancellation?.cancel(),
      discard: wipe,
    })
  }

  async generateBatch(
    requests: readonly KeyRequest[],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<readonly GeneratedKey[]> {
    const checked = checkKeyRequests(requests)
    signal?.throwIfAborted()
    if (checked.length === 0) return []
    const cancellation = this.#cancellationFor(signal)
    return unlessAborted(signal, this.#addon.generateKeys([...checked], cancellation), {
      stop: () => cancellation?.cancel(),
      discard: wipeAll,
    })
  }

  #cancellationFor(signal: AbortSignal | undefined) {
    return signal ? new this.#addon.Cancellation() : null
  }
}
