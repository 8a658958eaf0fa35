/** Metrics of the pods of this node, and of the watch that describes them. */
import type { Clock } from '@livery/core'
import type { MetricRow } from './metric-rows.ts'

interface Pods {
  readonly counts: { readonly known: number; readonly chosen: number; readonly refused: number }
}

interface Watcher {
  readonly state: { readonly kind: string }
  readonly heardAt: number | undefined
}

const STATES = ['unknown', 'watching', 'away'] as const

export function podMetrics(pods: Pods, watcher: Watcher, clock: Clock): readonly MetricRow[] {
  return [
    {
      name: 'livery_pods',
      help: 'Pods of this node: all that have not ended, those with an identity, and those that are chosen and have none or cannot be used.',
      labels: ['state'],
      read: () => Object.entries(pods.counts).map(([state, count]) => [count, state] as const),
    },
    {
      name: 'livery_pods_watch_state',
      help: '1 for the state of the watch at the API server: unknown (no list has come), watching, away (no answer).',
      labels: ['state'],
      read: () => STATES.map(state => [watcher.state.kind === state ? 1 : 0, state] as const),
    },
    {
      name: 'livery_pods_heard_age_seconds',
      help: 'Seconds since the API server last described the pods of this node: by a list, an event or a bookmark, of which there is one a minute.',
      read: () => (watcher.heardAt === undefined ? undefined : (clock.now() - watcher.heardAt) / 1000),
    },
  ]
}
