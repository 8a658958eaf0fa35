/** The events of a name, newest first. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageIdentity } from '../../../agent/src/page/state.ts'
import { explain, type LedgerLine } from '../live/actions.ts'
import { now } from '../live/agent-state.ts'
import { formatTime, visible } from '../parts/text.ts'

interface LedgerProps {
  readonly name: string
  /** A new row makes the list read the events again. */
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
      {lines.value.map(({ time, count, text, level }) => (
        <li key={`${time} ${text}`} class={level === 'warn' || level === 'error' ? 'ledger-bad' : ''}>
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
