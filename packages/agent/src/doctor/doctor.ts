/** `livery doctor`: looks at everything that can keep the agent from serving, and prints the remedies. */
import { SystemClock } from '@livery/core/plugin'
import { EXIT } from '../commands/exit-code.ts'
import type { GlobalOptions, Terminal } from '../commands/terminal.ts'
import { count, layOut, printableJson, wrap } from '../commands/text-layout.ts'
import type { ConfigSources } from '../config/layers.ts'
import { loadConfig } from '../config/load.ts'
import { addonFindings } from './addon-check.ts'
import { askCA } from './ca-check.ts'
import { diskFindings, fileFindings } from './file-checks.ts'
import type { Finding } from './finding.ts'
import { inotifyFinding, openFilesFinding } from './limit-checks.ts'
import { agentFindings, findAgent } from './running-agent.ts'
import { socketFindings } from './socket-checks.ts'
import { tokenFindings } from './token-checks.ts'

/** Resolves with the exit code: 1 if something is wrong. Rejects with a `ConfigError`, which is a finding too. */
export async function examine(sources: ConfigSources, { json }: GlobalOptions, terminal: Terminal): Promise<number> {
  const findings = await findingsOf(sources)
  terminal.out(json ? `${printableJson(findings)}\n` : describeFindings(findings, terminal.columns))
  return findings.some(({ state }) => state === 'wrong') ? EXIT.failed : EXIT.ok
}

async function findingsOf(sources: ConfigSources): Promise<readonly Finding[]> {
  const loaded = await loadConfig(sources)
  const { config } = loaded
  using clock = new SystemClock()
  const found = await findAgent(sources)
  const agent = 'problems' in found ? found : undefined
  const isRunning = agent !== undefined
  const ca = await askCA(loaded, clock)
  return [
    ...(agent ? agentFindings(agent, ca.code) : 'check' in found ? [found] : []),
    ...(await socketFindings(config, isRunning)),
    ...ca.findings,
    ...(await tokenFindings(config, ca, clock.now())),
    ...(await fileFindings(config, isRunning, clock.now())),
    ...(await diskFindings(config)),
    ...addonFindings(agent),
    openFilesFinding(config, agent),
    await inotifyFinding(),
  ]
}

const SIGNS: Readonly<Record<Finding['state'], string>> = {
  ok: 'ok',
  warning: 'warning',
  wrong: 'WRONG',
  skipped: 'skipped',
}

/** More findings of one kind share a row, lest a thousand sockets hide the one that is wrong. */
const MAX_ROWS = 3

const WELL = [
  'Nothing is wrong on this node. Do calls to another node fail?',
  'Compare livery trust status of both, and see docs/run/runbook/calls-refused.md',
]

/** Worst first. One row per finding, with facts and remedy below, and a total at the end. */
export function describeFindings(all: readonly Finding[], columns = Number.POSITIVE_INFINITY): string {
  const findings = worstFirst(summedUp(all))
  const rows = layOut(findings.map(({ state, check, subject }) => [SIGNS[state], check, subject]))
  const lines = findings.flatMap(({ text, remedy }, index) => [
    rows[index] ?? '',
    ...wrap(text, columns),
    ...(remedy === undefined ? [] : wrap(`→ ${remedy}`, columns)),
  ])
  const amount = findings.filter(({ state }) => state === 'wrong').length
  const verdict = amount === 0 ? WELL : [`${count(amount, 'thing')} ${amount === 1 ? 'is' : 'are'} wrong.`]
  return `${[...lines, '', ...verdict].join('\n')}\n`
}

/** Sorted by state, then in the order of the checks. */
function worstFirst(findings: readonly Finding[]): Finding[] {
  const byState = Map.groupBy(findings, ({ state }) => state)
  const rest = findings.filter(({ state }) => state !== 'wrong' && state !== 'warning')
  return [...(byState.get('wrong') ?? []), ...(byState.get('warning') ?? []), ...rest]
}

/** One finding replaces many good ones of a kind, or many with one cause, at the first one's place. */
function summedUp(findings: readonly Finding[]): readonly Finding[] {
  const groups = Map.groupBy(findings, causeOf)
  return findings.flatMap(finding => {
    const alike = groups.get(causeOf(finding)) ?? []
    if (alike.length <= MAX_ROWS) return [finding]
    if (finding !== alike[0]) return []
    if (finding.state === 'ok')
      return [
        { ...finding, subject: `${alike.length} of them`, text: 'nothing is wrong with them (--json lists each)' },
      ]
    const subject = `${finding.subject} and ${alike.length - 1} others`
    return [{ ...finding, subject, text: `the same of all ${alike.length} (--json lists each): ${finding.text}` }]
  })
}

/** The same for findings that differ only in subject; good findings of a kind are all the same. */
function causeOf({ state, check, subject, text }: Finding): string {
  return JSON.stringify([state, check, state === 'ok' ? '' : text.replaceAll(subject, '')])
}
