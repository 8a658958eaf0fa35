/** Whether a program that a test would run is there. */
import { spawnSync } from 'node:child_process'

export function hasTool(name: string): boolean {
  return spawnSync(name, ['version'], { stdio: 'ignore' }).error === undefined
}
