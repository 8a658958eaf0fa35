/** What happened to a name, the newest first. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageIdentity } from '../../../agent/src/page/state.ts'
import { explain, type LedgerLine } from '../live/actions.ts'
import { now } from '../live/agent-state.ts'
import { formatTime, visible } from '../parts/text.ts'

interface LedgerProps {
  readonly name: string
  /** The events are read again when this is another row. */
  readonly version: PageIdentity | undefined
}

export function LedgerList({ name, version }: LedgerProps) {
  const lines = useSignal<readonly LedgerLine[] | undefined>(undefined)
  const problem = useSignal('')
  useEffect(() => {
    const abort = new AbortController()
    explain(name, abort.signal).then(
      ({ entries }) => {
        lines.value = entries.toReversed()
        problem.value = ''
      },
      (error: unknown) => {
        if (!abort.signal.aborted) problem.value = error instanceof Error ? error.message : String(error)
      },
    )
    return () => abort.abort()
  }, [name, version])
  if (problem.value !== '') return <p class="box box-warning">The events could not be read: {problem.value}</p>
  if (lines.value === undefined) return <p class="muted">Reading the events…</p>
  if (lines.value.length === 0) return <p class="muted">Nothing has happened to this name.</p>
  return (
    <ol class="ledger">
      {lines.value.map(({ time, count, text, event }) => (
        <li key={`${time} ${text}`} class={BAD.has(event.kind) ? 'ledger-bad' : ''}>
          <time dateTime={new Date(time).toISOString()} title={formatTime(time, now.value)}>
            {formatAge(now.value - time)} ago
          </time>
          <span>
            {count === undefined ? '' : `${count} times, last: `}
            {visible(text)}
          </span>
        </li>
      ))}
    </ol>
  )
}

const BAD: ReadonlySet<string> = new Set([
  'ca-down',
  'ca-error',
  'crl-unavailable',
  'files-unusable',
  'nacked',
  'no-room',
  'not-stored',
  'preflight-failed',
  'refused',
  'revoked',
  'roots-rejected',
  'roots-unavailable',
  'shared-failure',
  'trial-rejected',
])
