/** Whether the agent is ready, in words: what is strictly ready has a certificate, and a renewal that works, of each identity. */
import type { PageIdentity, PageOverview } from '../../../agent/src/page/state.ts'
import { counted, formatCount } from '../parts/text.ts'

export function readinessText(
  { ready, strictReady }: PageOverview,
  identities: ReadonlyMap<string, PageIdentity>,
): string {
  if (!ready) return 'Not ready'
  if (strictReady) return 'Ready'
  const needed = [...identities.values()].filter(({ hold, state }) => hold !== 'removed' && state !== 'Idle')
  const missing = needed.filter(({ notAfter, state }) => notAfter === undefined || state === 'Expired').length
  if (missing > 0)
    return `Ready; ${formatCount(missing)} of ${formatCount(needed.length)} ${missing === 1 ? 'has' : 'have'} no certificate`
  const failing = needed.filter(({ failure }) => failure).length
  return failing === 0 ? 'Ready' : `Ready; ${counted(failing, 'certificate is', 'certificates are')} not renewed`
}
