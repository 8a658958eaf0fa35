/** Each behaviour in the README is the name of a test that exists. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

const ROOT = new URL('../', import.meta.url)
const ROW = /^\| (?<name>[^|]+) \| `(?<file>[^`]+)` \|$/gm

test('every behaviour of the README is a test', async () => {
  const readme = await readFile(new URL('README.md', ROOT), 'utf8')
  const [, section = ''] = readme.split('## What it does, and what holds it to that')
  const rows = [...(section.split('\n## ')[0] ?? '').matchAll(ROW)].map(({ groups }) => ({ ...groups }))
  assert.ok(rows.length >= 30)
  for (const { file, name } of rows) {
    const tests = await readFile(new URL(`src/${file}.test.ts`, ROOT), 'utf8')
    assert.ok(tests.includes(`test('${name}'`), `${file} has no test ${name}`)
  }
})
