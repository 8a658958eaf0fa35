/** The running agent's own diagnosis, as findings of the doctor. */
import { type CAErrorCode, scrub } from '@livery/core/plugin'
import type { ProblemList } from '../admin/routes.ts'
import { problemsForm } from '../commands/admin-answers.ts'
import { readAdmin } from '../commands/admin-client.ts'
import type { ConfigSources } from '../config/layers.ts'
import { isAbsence } from '../diagnosis/identity-verdict.ts'
import { countAffected, isUnready, type Problem } from '../diagnosis/problem.ts'
import { headline } from '../observe/headline.ts'
import { type Check, type Finding, ok, warning, wrong } from './finding.ts'

/** The agent, or the finding that there is none. */
export async function findAgent(sources: ConfigSources): Promise<ProblemList | Finding> {
  try {
    return await readAdmin<ProblemList>('/problems', problemsForm, sources)
  } catch (error) {
    const remedy =
      'The lines below check what the agent needs at its start. If it runs, endpoint-waiting in its log says why it does not listen'
    return wrong('agent', 'livery run', scrub(error), remedy)
  }
}

/** `caCode`: the CA's refusal of this command, if it refused. */
export function agentFindings({ problems, now }: ProblemList, caCode?: CAErrorCode): Finding[] {
  const found = problems.map(problem => findingOf(problem, now, caCode))
  const has = (check: Check) => found.some(each => each.check === check)
  return [
    ...found,
    ...(has('agent')
      ? []
      : [ok('agent', 'livery run', 'every identity has a valid certificate, every socket is bound')]),
    ...(has('roots') ? [] : [ok('roots', 'livery run', 'none is stopped, rejected, or about to end')]),
  ]
}

const CHECKS: Readonly<Record<string, Check>> = {
  socket: 'socket',
  clock: 'clock',
  'root-held': 'roots',
  'root-rejected': 'roots',
  'root-ends': 'roots',
}

function findingOf(problem: Problem, now: number, caCode: CAErrorCode | undefined): Finding {
  const { code, severity, reason, remedy, commands, affected } = problem
  const count = countAffected(problem)
  const name = count === 1 ? affected[0]?.listed[0]?.name : undefined
  const follows = caCode !== undefined && (code === caCode || (code === 'ca-down' && isAbsence(caCode)))
  const isWrong = severity === 'critical' || isUnready(problem, severity === 'warning' ? 'strict' : 'default')
  const report = isWrong ? wrong : warning
  const others = commands.filter(command => !(command === 'livery doctor' || (follows && command === 'livery ca test')))
  return report(
    CHECKS[code] ?? 'agent',
    name ?? 'livery run',
    scrub(`${headline({ ...problem, count }, now)}${reason === '' ? '' : `: ${reason}`}`),
    `${follows ? CA_IS_CAUSE : remedy}${others.length === 0 ? '' : ` Run: ${others.join('; ')}`}`,
  )
}

const CA_IS_CAUSE = 'This follows from the finding "ca": correct that one.'
