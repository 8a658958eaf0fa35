import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseOptions } from './bench-options.ts'
import { outputFolder } from './report.ts'

test('only --save writes where results are tracked', () => {
  assert.deepEqual(parseOptions([]), { save: false })
  assert.deepEqual(parseOptions(['--save']), { save: true })
  assert.match(outputFolder(false).pathname, /\/\.cache\/benchmarks\/$/)
  assert.match(outputFolder(true).pathname, /\/benchmarks\/$/)
  assert.throws(() => parseOptions(['--keep']), /--keep/)
})
