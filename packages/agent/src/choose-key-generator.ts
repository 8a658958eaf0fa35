/** Picks the key generator: the addon where it is built, WebCrypto where it is not, said aloud. */
import type { KeyGenerator } from '@livery/core'
import { createKeyGenerator } from '@livery/native-keygen'
import { ConfigError } from './config/config-error.ts'
import type { EnvironmentSwitches } from './config/environment.ts'

/** Throws a {@link ConfigError} if `LIVERY_KEYGEN` insists on the addon and there is none. */
export function chooseKeyGenerator(
  choice: EnvironmentSwitches['keyGenerator'],
  warn: (message: string) => void,
): KeyGenerator {
  const { generator, reason } = createKeyGenerator({ prefer: choice === 'webcrypto' ? 'webcrypto' : 'native' })
  if (reason === undefined || choice === 'webcrypto') return generator
  if (choice === 'native') {
    const origin = { kind: 'environment', variable: 'LIVERY_KEYGEN', text: choice } as const
    throw new ConfigError([{ origin, path: '', text: `the native key generator is wanted. ${reason}.` }])
  }
  warn(`Keys come from WebCrypto, which is slower. ${reason}.`)
  return generator
}
