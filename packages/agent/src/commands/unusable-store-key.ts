/** Why `store.keyFile` would keep the agent from starting, for `livery check-config` and `livery doctor`. */
import { existsSync } from 'node:fs'
import { readStoreKey } from '@livery/core'
import { oneLine } from '@livery/core/plugin'
import type { Config } from '../config/load.ts'

/** Silent about a missing credential of systemd: it exists in its service only. */
export async function unusableStoreKey({ store }: Pick<Config, 'store'>): Promise<string[]> {
  const { keyFile } = store ?? {}
  if (keyFile === undefined || (keyFile.startsWith('/run/credentials/') && !existsSync(keyFile))) return []
  try {
    const key = await readStoreKey(keyFile)
    key.fill(0)
    return []
  } catch (error) {
    return [oneLine(error instanceof Error ? error.message : String(error))]
  }
}
