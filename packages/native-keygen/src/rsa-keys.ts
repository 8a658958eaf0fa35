/** The way to make RSA keys: the configured one, if this CPU can run it. */
import type { Addon } from './addon.ts'
import { RSA_KEYS, type RsaKeys } from './defaults.ts'

interface RsaKeysChoice {
  readonly method: RsaKeys
  /** Why `method` is not the one that was asked for. Absent if it is. */
  readonly reason?: string
}

/** `wanted`, or `search` and the reason where this CPU cannot run it. Throws a `TypeError` for another name. */
export function chooseRsaKeys(wanted: RsaKeys, addon: Pick<Addon, 'rsaMethods'>): RsaKeysChoice {
  if (!RSA_KEYS.includes(wanted))
    throw new TypeError(
      `Cannot choose how RSA keys are made: rsaKeys is ${JSON.stringify(wanted)}; it must be one of ${RSA_KEYS.join(', ')}`,
    )
  if (addon.rsaMethods().includes(wanted)) return { method: wanted }
  return {
    method: 'search',
    reason: `this CPU cannot run rsaKeys "${wanted}", which needs AVX-512 IFMA, or AVX2 with FMA`,
  }
}
