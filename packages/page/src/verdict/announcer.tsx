/** Announces new problems to screen readers: a live region that changes only when there is something new to say. */
import { effect, signal } from '@preact/signals'
import { link } from '../live/connection.ts'
import { problems } from './verdict.tsx'

const announced = signal('')
let known: ReadonlySet<string> = new Set()

effect(() => {
  // The times in a problem change each second, so its subject identifies it.
  const current = new Map(
    problems.value.map(problem => [`${problem.code} ${problem.name ?? ''} ${problem.severity}`, problem.what]),
  )
  const fresh = [...current].filter(([key]) => !known.has(key)).map(([, what]) => what)
  known = new Set(current.keys())
  if (fresh.length > 0) announced.value = fresh.join('. ')
})

export function Announcer() {
  return (
    <div class="hidden" role="status" aria-live="polite">
      {link.value.kind === 'lost' ? 'Not connected to the agent: the page shows an old state.' : announced.value}
    </div>
  )
}
