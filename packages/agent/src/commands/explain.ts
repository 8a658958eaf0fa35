/** `livery explain NAME`: the ledger of one name in plain words. */
import { oneLine } from '@livery/core/plugin'
import type { Explanation } from '../admin/explain.ts'
import type { ConfigSources } from '../config/layers.ts'
import { describeLedger } from '../observe/ledger-text.ts'
import { explanationForm } from './admin-answers.ts'
import { askAdmin, firstLine, parseAnswer } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

export async function explainName(
  name: string,
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const { status, body } = await askAdmin(`/explain?name=${encodeURIComponent(name)}`, sources)
  if (status !== 200) {
    terminal.err(`livery: ${firstLine(body)}\n`)
    return EXIT.failed
  }
  const explanation = parseAnswer<Explanation>(body, explanationForm)
  if (json) {
    terminal.out(`${printableJson(explanation)}\n`)
    return EXIT.ok
  }
  const state = explanation.state === undefined ? '' : `: ${explanation.state}`
  const lines = describeLedger(explanation.entries, explanation.now).map(printableLine)
  if (lines.length === 0) lines.push('nothing has happened to it yet')
  terminal.out(`${oneLine(`${explanation.name}${state}`)}\n${lines.map(line => `  ${line}\n`).join('')}`)
  return EXIT.ok
}

/** The spaces before and after the age line the columns up. */
function printableLine(line: string): string {
  const text = line.trimStart()
  return `${' '.repeat(line.length - text.length)}${text.split('  ').map(oneLine).join('  ')}`
}
