/** The two ways in which a plugin from a module runs, for tests that hold both to the same. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { PluginUser } from '../src/plugin/messages.ts'

/** The overflow user of the kernel: it owns nothing. */
export const NOBODY: PluginUser = { uid: 65_534, gid: 65_534 }

export interface IsolationKind {
  readonly name: 'thread' | 'process'
  readonly user?: PluginUser
  /** Why it cannot be tried here. */
  readonly skip: string | false
}

function whyNoProcess(): string | false {
  if (process.geteuid?.() !== 0) return 'only root can start the process of another user'
  const code = `require('node:fs').accessSync(${JSON.stringify(fileURLToPath(import.meta.url))})`
  const { status } = spawnSync(process.execPath, ['-e', code], { ...NOBODY, cwd: '/' })
  return status === 0 ? false : `user ${NOBODY.uid} can read neither Node nor this checkout`
}

export const PROCESS: IsolationKind = { name: 'process', user: NOBODY, skip: whyNoProcess() }
export const ISOLATION_KINDS: readonly IsolationKind[] = [{ name: 'thread', skip: false }, PROCESS]
