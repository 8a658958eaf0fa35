/** ARCHITECTURE.md names the folders as they are, with today's imports, and files that exist. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const paper = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')

test('the map of folders is that of the sources', () => {
  const { stderr } = spawnSync(process.execPath, ['scripts/folder-map.mjs'], { cwd: root, encoding: 'utf8' })
  assert.equal(stderr, '')
})

test('every file that it names exists', () => {
  const named = [...paper.matchAll(/`((?:core|native-keygen|ca-plugins|sds-server|agent|page)\/(?:src|rust)\/[^`]+)`/g)]
  const paths = named.map(([, path = '']) => path)
  assert.ok(paths.length > 20)
  assert.deepEqual(
    paths.filter(path => !existsSync(join(root, 'packages', path))),
    [],
  )
})

test('every client of HTTP/1.1 bounds what a server sends before its answer', () => {
  const sources = globSync('packages/*/src/**/*.ts', { cwd: root }).filter(path => !path.endsWith('.test.ts'))
  const clients = sources.filter(path =>
    /(?<![#.\w])https?\.request\b|import \{[^}]*\brequest\b[^}]*\} from 'node:https?'/.test(
      readFileSync(join(root, path), 'utf8'),
    ),
  )
  assert.deepEqual(clients.toSorted(), [
    'packages/agent/src/commands/admin-client.ts',
    'packages/ca-plugins/src/transport/http-pool.ts',
    'packages/ca-plugins/src/transport/http-proxy.ts',
  ])
  for (const path of clients) assert.match(readFileSync(join(root, path), 'utf8'), /boundInterimAnswers\(/, path)
})
