/** The vault of this process: `rust/vault.rs` seals private keys under a key in locked memory. */
import { type KeyVault, plainKeyVault } from '@livery/core'
import { type Addon, lookup } from './addon.ts'

export interface ChosenKeyVault {
  readonly vault: KeyVault
  /** Why a protection is missing. */
  readonly reason?: string
  /** What to do about it, if something can be done. */
  readonly remedy?: string
}

/** Never throws. Without the addon keys are kept as they are. */
export function createKeyVault(): ChosenKeyVault {
  if (!lookup.addon) return { vault: plainKeyVault, reason: lookup.reason, remedy: lookup.remedy }
  try {
    return createWith(lookup.addon)
  } catch (error) {
    return { vault: plainKeyVault, reason: `Private keys are not sealed in memory: ${error}` }
  }
}

function createWith(addon: Addon): ChosenKeyVault {
  const { overhead, protection } = addon.keyVaultStatus()
  const vault: KeyVault = {
    overhead,
    seal: addon.sealKey,
    unseal: addon.openKey,
    publicKeyOf: key => addon.publicKeyOf(key) ?? undefined,
  }
  if (protection !== 'unlocked') return { vault }
  return {
    vault,
    reason: 'The key that seals private keys in memory can be swapped to disk, since mlock was refused',
    remedy: 'Raise the limit of locked memory (RLIMIT_MEMLOCK, LimitMEMLOCK= in systemd) to 64 KiB, or have no swap',
  }
}
