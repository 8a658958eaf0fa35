/** The first thing to read: what is about to break, why, and what to do. */
import { computed, signal } from '@preact/signals'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import { headline } from '../../../agent/src/observe/headline.ts'
import type { PageOverview, PageProblem } from '../../../agent/src/page/state.ts'
import { TROUBLE } from '../identities/listed-identities.ts'
import { clockAheadMs, now, overview, streams } from '../live/agent-state.ts'
import { opened, search, view, wantedState } from '../navigation/view.ts'
import { Command, Runbook } from '../parts/command.tsx'
import { Icon } from '../parts/icon.tsx'
import { counted, visible } from '../parts/text.ts'
import { withClock } from './problems.ts'

export const problems = computed(() => withClock(overview.value?.problems ?? [], clockAheadMs.value))

const isUnfolded = signal(false)
const FOLDED = 2

export function Verdict() {
  const [first, ...others] = problems.value
  const shown = isUnfolded.value ? others : others.slice(0, FOLDED)
  return (
    <section class={`verdict verdict-${first?.severity ?? 'good'}`} aria-label="What is about to break">
      {first ? <TopProblem problem={first} /> : <Healthy />}
      {shown.length === 0 ? null : (
        <ul class="others">
          {shown.map(problem => (
            <li key={problem.what}>
              <button type="button" class="other" onClick={() => show(problem)}>
                <Icon name={problem.severity} />
                <span>{visible(headline(problem, now.value))}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {others.length > FOLDED ? (
        <button
          type="button"
          class="link unfold"
          aria-expanded={isUnfolded.value}
          onClick={() => {
            isUnfolded.value = !isUnfolded.value
          }}
        >
          {isUnfolded.value ? 'Show fewer' : `Show ${counted(others.length - FOLDED, 'more problem')}`}
        </button>
      ) : null}
    </section>
  )
}

function TopProblem({ problem }: { readonly problem: PageProblem }) {
  const { severity, reason, remedy, commands, runbook } = problem
  const why = visible(reason)
  return (
    <div class="top-problem">
      <h1>
        <Icon name={severity} />
        {visible(headline(problem, now.value))}
      </h1>
      <p class="why" title={why}>
        {why}
      </p>
      <p class="remedy">{remedy}</p>
      <p class="do">
        <button type="button" class="button button-main" onClick={() => show(problem)}>
          Show details
        </button>
        {commands.map(command => (
          <Command key={command} text={command} />
        ))}
        {runbook ? <Runbook page={runbook} /> : null}
      </p>
    </div>
  )
}

function show({ view: place, name = '' }: PageProblem): void {
  view.value = place
  opened.value = name
  if (place !== 'identities' || name !== '') return
  search.value = ''
  wantedState.value = TROUBLE
}

function Healthy() {
  const { value } = overview
  if (!value)
    return (
      <div class="top-problem">
        <h1>
          <Icon name="starting" />
          Reading the agent's state…
        </h1>
      </div>
    )
  const { counts, lastsUntil, phase, plannedPerMinute } = value
  const planned = plannedPerMinute.reduce((sum, count) => sum + count, 0)
  const waiting = counts.Initializing
  return (
    <div class="top-problem">
      <h1>
        <Icon name={phase === 'serving' ? 'good' : 'working'} />
        {phase === 'serving' ? 'Nothing is about to break' : PHASES[phase]}
      </h1>
      <p class="why">
        {waiting === 0
          ? 'Every identity that is in use has a certificate.'
          : `${counted(waiting, 'identity waits', 'identities wait')} for the first certificate.`}{' '}
        {lastsUntil === undefined
          ? ''
          : `If the CA died now, the first certificate would end in ${formatAge(lastsUntil - now.value)}.`}{' '}
        {`${counted(planned, 'renewal is', 'renewals are')} planned for the next hour.`}
      </p>
      <p class="remedy">{workText(value)}</p>
      <p class="remedy">
        Do calls between workloads fail anyway? Compare{' '}
        <button
          type="button"
          class="link"
          onClick={() => {
            view.value = 'roots'
          }}
        >
          the roots
        </button>{' '}
        of both nodes: <Runbook page="calls-refused" />
      </p>
    </div>
  )
}

function workText({ ca: { lastIssuedAt }, sockets }: PageOverview): string {
  const issued =
    lastIssuedAt === undefined ? '' : `The CA issued the last certificate ${formatAge(now.value - lastIssuedAt)} ago. `
  const listening = sockets.filter(({ state }) => state === 'listening').length
  return `${issued}${counted(listening, 'socket')} and ${counted(streams.value?.total ?? 0, 'stream')} are served.`
}

const PHASES = { starting: 'The agent is starting', draining: 'The agent is shutting down' } as const
