/** The best key generator that this machine has. */
import type { KeyGenerator } from '@livery/core'
import { lookup } from './addon.ts'
import { NativeKeyGenerator } from './native-key-generator.ts'
import { WebCryptoKeyGenerator } from './webcrypto-key-generator.ts'

export interface KeyGeneratorChoice {
  readonly generator: KeyGenerator
  /** Why `generator` is not the native one, and what to do about it: to be said aloud. Absent: it is. */
  readonly reason?: string
}

export interface KeyGeneratorOptions {
  /** `webcrypto`: never the addon. Default: `native`, the addon where it loads. */
  readonly prefer?: 'native' | 'webcrypto'
}

/** The addon's generator, or the one on WebCrypto and the reason. */
export function createKeyGenerator({ prefer = 'native' }: KeyGeneratorOptions = {}): KeyGeneratorChoice {
  if (prefer === 'webcrypto') return { generator: new WebCryptoKeyGenerator(), reason: 'WebCrypto was asked for' }
  if (prefer !== 'native')
    throw new TypeError(
      `Cannot choose a key generator: prefer is ${JSON.stringify(prefer)}; it must be native or webcrypto`,
    )
  if (lookup.addon) return { generator: new NativeKeyGenerator(lookup.addon) }
  return { generator: new WebCryptoKeyGenerator(), reason: lookup.reason }
}
