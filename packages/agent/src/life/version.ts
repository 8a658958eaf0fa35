/** The version of this package, for `--version`, the dump and the metrics. */
import { readFileSync } from 'node:fs'

export const VERSION: string = readVersion()

function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const named = typeof manifest === 'object' && manifest !== null && 'version' in manifest
  return named ? String(manifest.version) : 'unknown'
}
