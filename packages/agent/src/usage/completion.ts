/** `livery completion`: the script for a shell, and the names that it asks the running agent for. */
import { askAdmin } from '../commands/admin-client.ts'
import { EXIT } from '../commands/exit-code.ts'
import type { Terminal } from '../commands/terminal.ts'
import type { ConfigSources } from '../config/layers.ts'
import { bashCompletion } from './bash-completion.ts'
import type { CommandReference } from './command-reference.ts'
import { fishCompletion } from './fish-completion.ts'
import { zshCompletion } from './zsh-completion.ts'

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }

export type Shell = keyof typeof SCRIPTS

export function completionScript(shell: Shell, program: CommandReference): string {
  return SCRIPTS[shell](program)
}

/** A person waits with a finger on the key. */
const DEADLINE_MS = 1_000
/** No shell gives any of them a meaning: bash puts a completed word on the line as it is. */
const PLAIN = /^\w[\w.:/@%+~=-]*$/

/** Prints the names that begin with `prefix`, one per line. Silent where no agent answers in time. */
export async function printNames(prefix: string, sources: ConfigSources, terminal: Terminal): Promise<number> {
  try {
    const { status, body } = await askAdmin(`/names?prefix=${encodeURIComponent(prefix)}`, sources, DEADLINE_MS)
    if (status !== 200) return EXIT.failed
    const names = body.split('\n').filter(name => PLAIN.test(name) && name.startsWith(prefix))
    terminal.out(names.map(name => `${name}\n`).join(''))
    return EXIT.ok
  } catch {
    // A message would end up in the line that is being written.
    return EXIT.failed
  }
}
