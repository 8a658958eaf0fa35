/** Overwrites private keys that nobody will use. */
import type { GeneratedKey } from '@livery/core/plugin'

export function wipe(key: GeneratedKey): void {
  key.privateKeyPem.fill(0)
}

export function wipeAll(keys: readonly GeneratedKey[]): void {
  keys.forEach(wipe)
}
