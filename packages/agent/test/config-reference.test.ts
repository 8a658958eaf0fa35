/** docs/reference/configuration.md is what the schema makes of it, and the schema says what each key means. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { BUILT_IN_CA_PLUGINS, BUILT_IN_CREDENTIALS } from '../src/plugin/built-in-plugins.ts'
import { PAGE, page, settingRows } from './config-reference.ts'

test('docs/reference/configuration.md is current', async () => {
  assert.equal(await readFile(PAGE, 'utf8'), await page(), 'The schema has changed. Run npm run config-reference')
})

test('each key has its meaning, its form, and a default or none', () => {
  const rows = settingRows()
  assert.ok(rows.length > 80)
  for (const { path, form, meaning } of rows) {
    assert.ok(meaning, `${path} has no meaning: wrap its value in key('…', value)`)
    assert.doesNotMatch(form, /undefined|object/, path)
  }
  assert.equal(new Set(rows.map(({ path }) => path)).size, rows.length)
})

test('forms, bounds and defaults are those that the agent uses', () => {
  const rows = new Map(settingRows().map(row => [row.path, row]))
  const shown = (path: string) => [rows.get(path)?.form, rows.get(path)?.default]
  assert.deepEqual(shown('ttl'), ['duration, `1s` to `3650d`', '`24h`'])
  assert.deepEqual(shown('sockets[].mode'), ['file mode in quotes', '`"0660"`'])
  assert.deepEqual(shown('sockets[].path'), ['path', '**required**'])
  assert.deepEqual(shown('sockets[].limits.messageBytes'), ['bytes, 4,096 to 67,108,864', '`262144`'])
  assert.deepEqual(shown('identities[].socket.workloadApi'), ['`true`, `false`', '`true`'])
  assert.deepEqual(shown('trust.federated.NAME.file'), ['path', '–'])
  assert.match(rows.get('identities[].output')?.meaning ?? '', /`directory`, .* as in `output`$/)
})

test('each plugin and each source of credentials has a section', async () => {
  const text = await page()
  for (const name of Object.keys(BUILT_IN_CA_PLUGINS)) assert.match(text, new RegExp(`^### ca: ${name}$`, 'm'))
  for (const name of Object.keys(BUILT_IN_CREDENTIALS))
    assert.match(text, new RegExp(`^### credentials: ${name}$|\`${name}\`, the default, has no keys`, 'm'))
})
