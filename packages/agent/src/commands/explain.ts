/** `livery explain NAME`: the ledger of one name in plain words. */
import type { Explanation } from '../admin/routes.ts'
import type { ConfigSources } from '../config/layers.ts'
import { EXIT } from '../exit-code.ts'
import { describeLedger } from '../observe/ledger-text.ts'
import { askAdmin, MAX_BODY } from './admin-client.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'

export async function explainName(
  name: string,
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const { status, body } = await askAdmin(`/explain?name=${encodeURIComponent(name)}`, sources)
  if (status !== 200) {
    terminal.err(`livery: ${body.slice(0, MAX_BODY)}`)
    return EXIT.failed
  }
  if (json) {
    terminal.out(body)
    return EXIT.ok
  }
  const explanation = JSON.parse(body) as Explanation
  const state = explanation.state === undefined ? '' : `: ${explanation.state}`
  const lines = describeLedger(explanation.entries, explanation.now)
  if (lines.length === 0) lines.push('nothing has happened to it yet')
  terminal.out(`${explanation.name}${state}\n${lines.map(line => `  ${line}\n`).join('')}`)
  return EXIT.ok
}
