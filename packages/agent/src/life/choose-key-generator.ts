/** Picks the key generator: the addon if it is built, otherwise WebCrypto. */
import type { KeyGenerator } from '@livery/core/plugin'
import { createKeyGenerator } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import { ConfigError } from '../schema/config-error.ts'

type KeySettings = Pick<Config, 'keyGenerator' | 'keyType' | 'rsaKeys'>

/** Throws a {@link ConfigError} if `LIVERY_KEYGEN` requires the addon and there is none. */
export function chooseKeyGenerator(
  { keyGenerator: choice, keyType, rsaKeys }: KeySettings,
  warn: (message: string) => void,
): KeyGenerator {
  const options = {
    prefer: choice === 'webcrypto' ? 'webcrypto' : 'native',
    rsaKeys,
  } as const
  const { generator, reason, rsaReason } = createKeyGenerator(options)
  if (rsaReason !== undefined && keyType.startsWith('rsa-'))
    warn(`RSA keys come from rsaKeys "search", which is slower: ${rsaReason}. Write "rsaKeys: search" to accept it.`)
  if (reason !== undefined && choice === 'native') {
    const origin = { kind: 'environment', variable: 'LIVERY_KEYGEN', text: choice } as const
    throw new ConfigError([{ origin, path: '', reason: 'the native key generator is wanted', remedy: reason }])
  }
  return generator
}
