/** ARCHITECTURE.md names the folders as they are, with today's imports, and files that exist. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const paper = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')

test('the map of folders is that of the sources', () => {
  assert.equal(checkMap(root), '')
})

test('a folder without a description, an import the other way round and an unnamed inner folder fail the check of the map', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'livery-map-'))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true })
    writeFileSync(join(folder.path, path), text)
  }
  write('packages/house/src/hall/door.ts', "import { bed } from '../room/bed.ts'\n")
  write('packages/house/src/room/bed.ts', 'export const bed = 1\n')
  const rows = ['house  a house', '  hall  where guests come in', '  room  where they sleep']
  write('ARCHITECTURE.md', ['<!-- folders -->', '```text', ...rows, '```', '<!-- /folders -->\n'].join('\n'))

  assert.match(checkMap(folder.path), /names and arrows are not those of today/)
  checkMap(folder.path, '--write')
  assert.equal(checkMap(folder.path), '')
  assert.match(readFileSync(join(folder.path, 'ARCHITECTURE.md'), 'utf8'), /hall {2}→ room {2}where guests come in/)

  write('packages/house/src/room/bed.ts', "export * from '../hall/door.ts'\n")
  write('packages/house/src/hall/door.ts', '')
  assert.match(checkMap(folder.path), /names and arrows are not those of today/)
  write('packages/house/src/cellar/wine.ts', '')
  write('packages/house/src/room/wardrobe/coat.ts', '')
  assert.match(checkMap(folder.path), /house\/cellar has no description/)
  assert.match(checkMap(folder.path), /the row house\/room does not name wardrobe/)
})

test('every file that it names exists', () => {
  const named = [...paper.matchAll(/`((?:core|native-keygen|ca-plugins|sds-server|agent|page)\/(?:src|rust)\/[^`]+)`/g)]
  const paths = named.map(([, path = '']) => path)
  assert.ok(paths.length > 30)
  assert.deepEqual(
    paths.filter(path => !existsSync(join(root, 'packages', path))),
    [],
  )
})

/** The check's standard error: empty if the map is right. */
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

function checkMap(folder: string, ...options: string[]): string {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/folder-map.mjs', ...options, folder], {
    cwd: root,
    encoding: 'utf8',
  })
  assert.equal(status, stderr === '' ? 0 : 1)
  return stderr
}
