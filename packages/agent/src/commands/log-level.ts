/** `livery log-level`: how much each module of the running agent writes to the log. */
import type { ConfigSources } from '../config/layers.ts'
import { askAdmin, firstLine } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

/** Rejects as `askAdmin` does, and with an `Error` for the answer of another program. */
export async function showLogLevels(
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const { status, body } = await askAdmin('/logging', sources)
  const levels = [...body.matchAll(/^([a-z]+) +([a-z]+)$/gm)].map(([, scope = '', level = '']) => [scope, level])
  if (status !== 200 || levels.length === 0) throw new Error(`the agent answered ${status}: ${firstLine(body)}`)
  const lines = levels.map(([scope = '', level]) => `${scope.padEnd(12)}${level}\n`)
  terminal.out(json ? `${printableJson(Object.fromEntries(levels))}\n` : lines.join(''))
  return EXIT.ok
}
