/** The best key generator that this machine has. */
import type { KeyGenerator } from '@livery/core'
import { lookup } from './addon.ts'
import { type KeyPoolOptions, NativeKeyGenerator } from './native-key-generator.ts'
import { WebCryptoKeyGenerator } from './webcrypto-key-generator.ts'

export interface KeyGeneratorChoice {
  /** Disposing of it wipes the pool of keys made ahead. It goes on making keys when they are asked for. */
  readonly generator: KeyGenerator & Disposable
  /** Why `generator` is not the native one, and what to do about it: to be said aloud. Absent: it is. */
  readonly reason?: string
}

export interface KeyGeneratorOptions {
  /** `webcrypto`: never the addon. Default: `native`, the addon where it loads. */
  readonly prefer?: 'native' | 'webcrypto'
  /** The pool of keys made ahead, which the native generator alone has. `false`: none. Default: `{ cpu: 0.25 }`. */
  readonly pool?: KeyPoolOptions | false
}

/** The addon's generator, or the one on WebCrypto and the reason. */
export function createKeyGenerator({ prefer = 'native', pool = {} }: KeyGeneratorOptions = {}): KeyGeneratorChoice {
  if (prefer === 'webcrypto') return { generator: new WebCryptoKeyGenerator(), reason: 'WebCrypto was asked for' }
  if (prefer !== 'native')
    throw new TypeError(
      `Cannot choose a key generator: prefer is ${JSON.stringify(prefer)}; it must be native or webcrypto`,
    )
  if (lookup.addon) return { generator: new NativeKeyGenerator(lookup.addon, { pool }) }
  return { generator: new WebCryptoKeyGenerator(), reason: lookup.reason }
}
