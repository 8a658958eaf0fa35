/** SECURITY.md says nothing that a test does not: each row of its tables names one, and the tests that it names exist. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
/** The rows of the tables under the heading "claim". */
const claims = [
  ...readFileSync(`${root}SECURITY.md`, 'utf8').matchAll(/^\| claim \|.*\n\|.*\n((?:\|.*\n)+)/gm),
].flatMap(([, rows = '']) => rows.trimEnd().split('\n'))
/** A file below `packages`, and a part of a test's name: of one made in a loop, the part that is always there. */
const REFERENCE = /`([\w./-]+\.(?:test\.ts|rs))`: \*([^*]+)\*/g

test('every claim names a test', () => {
  assert.deepEqual(
    claims.filter(row => row.match(REFERENCE) === null),
    [],
  )
  assert.ok(claims.length > 30)
})

test('every test that is named exists', () => {
  const missing = claims
    .flatMap(row => [...row.matchAll(REFERENCE)])
    .filter(([, file = '', name = '']) => !existsSync(`${root}packages/${file}`) || !textOf(file).includes(name))
    .map(([reference]) => reference)
  assert.deepEqual(missing, [])
})

/** As the reader of a test's name sees it. */
function textOf(file: string): string {
  return readFileSync(`${root}packages/${file}`, 'utf8').replaceAll("\\'", "'")
}
