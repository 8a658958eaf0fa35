/** A configuration file of one test file, in a folder of its own. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { type LoadedConfig, loadConfig } from '../src/config/load.ts'
import type { ConfigError } from '../src/schema/config-error.ts'

export const directory = temporaryFolder({ after })
export const file = join(directory, 'livery.yaml')

/** A configuration with no more than it needs. */
export const MINIMAL = `ca: { plugin: embedded }
identities: [spiffe://cluster.local/ns/default/sa/web]
sockets: [{ path: run/sds.sock }]
`

/** Writes `text` to {@link file}, and loads it without a variable or flag. */
export async function load(text: string): Promise<LoadedConfig> {
  writeFileSync(file, text)
  return await loadConfig({ file, environment: {}, workingDirectory: '/elsewhere', terminal: false })
}

/** The line and the key of each fault; in place of the line what else it comes from. */
export function placesOf({ problems }: ConfigError): string[] {
  return problems.map(({ origin, path }) => `${('line' in origin && origin.line) || origin.kind} ${path}`)
}
