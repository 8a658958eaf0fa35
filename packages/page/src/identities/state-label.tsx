/** The state of an identity: a mark and a word. */
import type { PageIdentity, PageIdentityState } from '../../../agent/src/page/state.ts'
import { Icon, type IconName } from '../parts/icon.tsx'

const ICONS: Readonly<Record<PageIdentityState, IconName>> = {
  Initializing: 'starting',
  Available: 'good',
  Renewing: 'working',
  Failing: 'warning',
  Expired: 'critical',
  Idle: 'idle',
}

export function StateLabel({ identity: { state, failure, notAfter } }: { readonly identity: PageIdentity }) {
  const icon = failure && notAfter === undefined ? 'critical' : ICONS[state]
  return (
    <span class="state">
      <Icon name={icon} />
      {state}
    </span>
  )
}
