/** The best key generator that this machine has. */
import type { KeyGenerator } from '@livery/core/plugin'
import { lookup } from './addon.ts'
import type { RsaKeys } from './defaults.ts'
import { NativeKeyGenerator } from './native-key-generator.ts'
import { WebCryptoKeyGenerator } from './webcrypto-key-generator.ts'

export interface KeyGeneratorChoice {
  readonly generator: KeyGenerator
  /** Why `generator` is not the native one, and what to do about it: log it. Absent if it is the native one. */
  readonly reason?: string
  /** Why RSA keys are not made by `rsaKeys`: log it if RSA keys are made. Absent if they are. */
  readonly rsaReason?: string
}

export interface KeyGeneratorOptions {
  /**
   * How RSA keys are made; it has no effect where WebCrypto stands in. A CPU that cannot run `simd` runs `search`.
   * Default: `simd`.
   */
  readonly rsaKeys?: RsaKeys
  /** `webcrypto`: never the addon. Default: `native`, the addon where it loads. */
  readonly prefer?: 'native' | 'webcrypto'
}

/** The addon's generator, or the one on WebCrypto and the reason. */
export function createKeyGenerator({ prefer = 'native', rsaKeys }: KeyGeneratorOptions = {}): KeyGeneratorChoice {
  if (prefer === 'webcrypto') return { generator: new WebCryptoKeyGenerator(), reason: 'WebCrypto was asked for' }
  if (prefer !== 'native')
    throw new TypeError(
      `Cannot choose a key generator: prefer is ${JSON.stringify(prefer)}; it must be native or webcrypto`,
    )
  if (!lookup.addon) return { generator: new WebCryptoKeyGenerator(), reason: `${lookup.reason}. ${lookup.remedy}` }
  const generator = new NativeKeyGenerator(lookup.addon, rsaKeys)
  return { generator, ...(generator.rsaReason !== undefined && { rsaReason: generator.rsaReason }) }
}
