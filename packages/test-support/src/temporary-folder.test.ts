import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { test } from 'node:test'

const FAILING = `
import { after, test } from 'node:test'
import { writeFileSync } from 'node:fs'
import { temporaryFolder } from ${JSON.stringify(new URL('temporary-folder.ts', import.meta.url))}
const shared = temporaryFolder({ after })
test('fails', t => {
  const own = temporaryFolder(t)
  for (const folder of [shared, own]) writeFileSync(folder + '/file', '')
  t.diagnostic(JSON.stringify([shared, own]))
  throw new Error('as it should')
})
`

test('the folders of a test that fails are removed', async () => {
  const { promise, resolve } = Promise.withResolvers<{ readonly code: unknown; readonly output: string }>()
  execFile(process.execPath, ['--input-type=module', '-e', FAILING], { env: {} }, (error, output) =>
    resolve({ code: error?.code, output }),
  )
  const { code, output } = await promise
  assert.equal(code, 1, output)
  const folders: readonly string[] = JSON.parse(/\[".*"\]/.exec(output)?.[0] ?? '[]')
  assert.deepEqual(folders.map(existsSync), [false, false], output)
})
