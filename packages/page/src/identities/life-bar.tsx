/** A certificate's life as a line: the elapsed part, now, the planned renewal, the end. */
import type { PageIdentity } from '../../../agent/src/page/state.ts'
import { now } from '../live/agent-state.ts'
import { formatDistance } from '../parts/text.ts'
import { type Life, lifeOf } from './life.ts'

export function LifeBar({ identity }: { readonly identity: PageIdentity }) {
  const life = lifeOf(identity, now.value)
  if (!life) return <span class="muted">no certificate</span>
  const { renewAt, severity = 'good' } = identity
  const isPlanned = renewAt !== undefined && renewAt > now.value && renewAt < life.notAfter
  return (
    <span class={`life life-${severity}`} role="img" aria-label={describeLife(life, identity)}>
      <span class="life-left" style={{ left: percent(1 - life.left) }} />
      {isPlanned ? (
        <span class="life-renewal" style={{ left: percent(1 - (lifeOf(identity, renewAt)?.left ?? 0)) }} />
      ) : null}
    </span>
  )
}

function percent(fraction: number): string {
  return `${(100 * fraction).toFixed(2)}%`
}

function describeLife({ left }: Life, { renewAt, failure }: PageIdentity): string {
  const next =
    renewAt === undefined ? '' : `, ${failure ? 'next try' : 'renewal'} ${formatDistance(renewAt, now.value)}`
  return `${Math.round(100 * left)} % of its life is left${next}`
}
