/** Warns that an installation without the native addon checks less. */
import { LESS_STRICT } from '../life/process-setup.ts'
import { type Finding, warning } from './finding.ts'

export function addonFindings(): readonly Finding[] {
  if (LESS_STRICT === undefined) return []
  return [warning('addon', 'livery', LESS_STRICT, 'Install or build the addon (npm run native)')]
}
