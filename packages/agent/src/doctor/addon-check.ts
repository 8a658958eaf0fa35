/** Warns that the agent, or the next one of this installation, checks less without the native addon. */
import type { ProblemList } from '../admin/routes.ts'
import { LESS_STRICT } from '../life/process-setup.ts'
import { type Finding, warning } from './finding.ts'

export function addonFindings(agent: Pick<ProblemList, 'hasAddon'> | undefined): readonly Finding[] {
  if (LESS_STRICT !== undefined)
    return [warning('addon', 'livery', LESS_STRICT, 'Install or build the addon (npm run native)')]
  if (agent?.hasAddon !== false) return []
  return [warning('addon', 'livery run', 'the agent started before the native addon was there', 'Restart the agent')]
}
