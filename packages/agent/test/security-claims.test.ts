/** SECURITY.md promises nothing that a test does not attack: each promise links to one, and the tests that it names exist. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { REPOSITORY, read } from './papers.ts'

const [, promised = ''] = /^## Promises\n([\s\S]*)^## /m.exec(read('SECURITY.md')) ?? []
const promises = promised.split('\n').filter(line => line.startsWith('- '))
/** A file of tests, and the beginning of a test's name: for a test made in a loop, the part that is always there. */
const ATTACK = /\]\((packages\/[\w./-]+\.(?:test\.ts|rs))#([a-z0-9-]+)\)/g

test('every promise links to a test that attacks it', () => {
  assert.deepEqual(
    promises.filter(promise => promise.match(ATTACK) === null),
    [],
  )
  assert.ok(promises.length > 60)
})

test('every test that is named exists', () => {
  const missing = [...promised.matchAll(ATTACK)].filter(
    ([, file = '', name = '']) => !existsSync(REPOSITORY + file) || !namesIn(file).includes(name),
  )
  assert.deepEqual(
    missing.map(([link]) => link),
    [],
  )
})

/** Its text as a fragment has it: the letters and digits, with hyphens between. */
function namesIn(file: string): string {
  return readFileSync(REPOSITORY + file, 'utf8')
    .toLowerCase()
    .replaceAll('\\', '')
    .replaceAll(/[^a-z0-9]+/g, '-')
}
