/** Whether the agent serves what it is configured for, or what it waits for: the diagnosis for probes and people. */
import { type AffectedIdentity, isUnready, type Problem, type ReadinessMode } from '../diagnosis/problem.ts'
import { formatAge } from './format-age.ts'

interface Readiness {
  readonly ready: boolean
  /** Plain text: the verdict first, then up to 100 lines of each list. */
  readonly text: string
}

/**
 * Ready by default: every socket is bound, and every identity has a valid certificate. As long as another identity has a
 * valid certificate, identities in their first minute, failing at the CA, or only ever asked for on demand do not count:
 * a CA that refuses one must not take the others out of service. An identity that needs no certificate (idle or removed)
 * never counts.
 */
export function readiness(problems: readonly Problem[], mode: ReadinessMode, now: number): Readiness {
  const ready = !problems.some(problem => isUnready(problem, mode))
  const lists = new Map<string, Lines>(TITLES.map(title => [title, { count: 0, items: [] }]))
  const add = (title: Title, count: number, items: readonly string[]) => {
    const list = lists.get(title)
    if (!list) return
    list.count += count
    list.items.push(...items)
  }
  for (const problem of problems) {
    const { affected } = problem
    for (const { effect, count, listed, ...counts } of affected) {
      const isCounted = isUnready(counts, mode)
      if (effect === 'expired' || effect === 'missing')
        add(isCounted ? 'waiting for' : 'without a certificate, not counted', count, listed.map(missingLine))
      else if (effect === 'not-renewed' || effect === 'revoked')
        add(
          isCounted ? 'renewals that fail' : 'renewals that fail, not counted',
          count,
          listed.map(identity => renewalLine(identity, now)),
        )
      else add('not counted', 1, [agentLine(problem)])
    }
    if (affected.length === 0) add(isUnready(problem, mode) ? 'waiting for' : 'not counted', 1, [agentLine(problem)])
  }
  const sections = [...lists].flatMap(([title, { count, items }]) => section(title, items, count))
  return { ready, text: `${[ready ? 'ready' : 'not ready', ...sections].join('\n')}\n` }
}

interface Lines {
  count: number
  readonly items: string[]
}

const TITLES = [
  'waiting for',
  'renewals that fail',
  'without a certificate, not counted',
  'renewals that fail, not counted',
  'not counted',
] as const
type Title = (typeof TITLES)[number]

function agentLine({ what, reason }: Problem): string {
  return `${what}: ${reason}`
}

function missingLine({ name, reason }: AffectedIdentity): string {
  return `${name}: ${reason}`
}

function renewalLine({ name, failingSince, renewAt, notAfter = 0, reason }: AffectedIdentity, now: number): string {
  const age = failingSince === undefined ? 'is late' : `has failed for ${formatAge(now - failingSince)}`
  const next = renewAt === undefined ? 'an attempt is queued or in flight' : `next try in ${formatAge(renewAt - now)}`
  return `${name}: ${age}, ${next}, its certificate ends in ${formatAge(notAfter - now)}: ${reason}`
}

const LINES = 100
/** The text of a CA's failure can be long, and a hundred identities can share it. */
const LINE_CHARS = 600

function section(title: string, items: readonly string[], count: number): string[] {
  if (count === 0) return []
  const shown = items.slice(0, LINES).map(item => `  ${cutLine(item)}`)
  return [`${title}:`, ...shown, ...(count > LINES ? [`  and ${count - LINES} more`] : [])]
}

function cutLine(line: string): string {
  return line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line
}
