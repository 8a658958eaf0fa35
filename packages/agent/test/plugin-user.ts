/** Another user for the process of a plugin, for tests. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { PluginUser } from '../src/plugin/messages.ts'

/** The overflow user of the kernel: it owns nothing. */
export const NOBODY: PluginUser = { uid: 65_534, gid: 65_534 }

/** Why a plugin cannot run as {@link NOBODY} here. */
export const noOtherUser = whyNot()

function whyNot(): string | false {
  if (process.geteuid?.() !== 0) return 'only root can start the process of another user'
  const code = `require('node:fs').accessSync(${JSON.stringify(fileURLToPath(import.meta.url))})`
  const { status } = spawnSync(process.execPath, ['-e', code], { ...NOBODY, cwd: '/' })
  return status === 0 ? false : `user ${NOBODY.uid} can read neither Node nor this checkout`
}
