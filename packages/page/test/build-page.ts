/** Builds the page in the browser from its sources, as the set-up of the workspace does. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export function buildPage(): void {
  execFileSync(process.execPath, [fileURLToPath(new URL('../build.mjs', import.meta.url))])
}
