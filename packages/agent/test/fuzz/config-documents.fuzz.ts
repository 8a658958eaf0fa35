/** Configuration documents through the whole reader: a configuration, or a ConfigError that names the place; never anything else. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TemporaryFolder } from '@livery/test-support'
import fc from 'fast-check'
import { loadConfig } from '../../src/config/load.ts'
import { ConfigError } from '../../src/schema/config-error.ts'

const directory = new TemporaryFolder()
process.once('exit', () => directory[Symbol.dispose]())
const file = join(directory.path, 'livery.yaml')

const KEYS = [
  'trustDomain',
  'keyType',
  'ttl',
  'rotation',
  'retry',
  'ca',
  'identities',
  'sockets',
  'admin',
  'store',
  'log',
  'names',
]
const WORDS = [
  'ratio',
  'plugin',
  'path',
  'mode',
  'allow',
  'callers',
  'limits',
  'range',
  'id',
  'address',
  'directory',
  'level',
  'uid',
]
const TEXTS = [
  'embedded',
  'citadel',
  '24h',
  '-1s',
  '0',
  '1e9',
  '"0660"',
  'spiffe://cluster.local/ns/a/sa/b',
  'run/sds.sock',
  '127.0.0.1:0',
]
const ODD = [
  '{0..9}',
  '"spiffe://a/{0..99999999999}"',
  '&a',
  '*a',
  '!!binary',
  '<<: *a',
  '|',
  '>',
  '? ',
  '- ',
  '\t',
  '%',
  '\u0000',
  '\uFEFF',
  '__proto__',
  'constructor',
]

const leaf = fc.oneof(fc.constantFrom(...TEXTS, ...ODD), fc.integer().map(String), fc.string({ maxLength: 20 }))
const key = fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...KEYS, ...WORDS) }, { weight: 1, arbitrary: leaf })
const { tree } = fc.letrec<{ tree: string; list: string; map: string }>(tie => ({
  tree: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie('list'), tie('map')),
  list: fc.array(tie('tree'), { maxLength: 4 }).map(items => `[${items.join(', ')}]`),
  map: fc
    .array(fc.tuple(key, tie('tree')), { maxLength: 5 })
    .map(pairs => `{ ${pairs.map(([k, v]) => `${k}: ${v}`).join(', ')} }`),
}))
const line = fc.tuple(fc.oneof(fc.constantFrom(...KEYS), leaf), tree).map(([k, v]) => `${k}: ${v}`)

export const inputs = fc.oneof(
  fc.array(line, { maxLength: 8 }).map(lines => lines.join('\n')),
  fc
    .array(fc.oneof(leaf, fc.constantFrom(': ', '\n', '  ', ', ', '{', '}', '[', ']')), { maxLength: 60 })
    .map(parts => parts.join('')),
)
/** With the schema of a plugin, which is made for each document. */
export const maxCpuMs = 100

export async function run(text: string): Promise<void> {
  writeFileSync(file, text)
  try {
    await loadConfig({ file, environment: {}, workingDirectory: directory.path, terminal: false })
  } catch (error) {
    assert.ok(error instanceof ConfigError, error instanceof Error ? error.stack : String(error))
    const most = 2_000 + 500 * text.length
    assert.ok(error.message.length < most, `a message of ${error.message.length} characters`)
  }
}
