import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

/** The exports of a file of public names: which name comes from which file. */
async function exportsOf(file: string): Promise<ReadonlyMap<string, string>> {
  const source = await readFile(new URL(file, import.meta.url), 'utf8')
  const lists = source.matchAll(/export (?:type )?\{([^}]+)\} from '([^']+)'/g)
  return new Map(
    [...lists].flatMap(([, names = '', from = '']) =>
      names
        .split(',')
        .map(name => name.trim().replace(/^type /, ''))
        .filter(name => name !== '')
        .map(name => [name, from] as const),
    ),
  )
}

test('each name stands on @livery/core or on @livery/core/plugin, and seventy at most on the first', async () => {
  const [plugin, main] = await Promise.all([exportsOf('plugin.ts'), exportsOf('index.ts')])
  assert.ok(plugin.size > 50, 'the lists are read')
  assert.deepEqual(
    [...plugin.keys()].filter(name => main.has(name)),
    [],
  )
  assert.ok(main.size <= 70, `${main.size} names`)
})
