/** The state of the watch that describes the pods of this node. */
import type { MetricRow } from './metric-rows.ts'

interface Watcher {
  readonly state: { readonly kind: string }
}

const STATES = ['unknown', 'watching', 'away'] as const

export function podMetrics(watcher: Watcher): readonly MetricRow[] {
  return [
    {
      name: 'livery_pods_watch_state',
      help: '1 for the state of the watch at the API server: unknown (no list has come), watching, away (no answer).',
      labels: ['state'],
      read: () => STATES.map(state => [watcher.state.kind === state ? 1 : 0, state] as const),
    },
  ]
}
