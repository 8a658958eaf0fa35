import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseOptions } from './options.ts'

test('without options this working copy is measured once', () => {
  const options = parseOptions([])
  assert.deepEqual([options?.identities, options?.ttlMs, options?.cutMs, options?.rounds], [1_000, 60_000, 90_000, 1])
  assert.equal(options?.folders.length, 1)
})

test('another working copy is measured before this one', () => {
  assert.equal(parseOptions(['--against', '/somewhere/else'])?.folders[0], '/somewhere/else')
})

for (const [args, message] of [
  [['--cut', '1ms'], /--cut "1ms" is less than 1000 ms/],
  [['--manner', 'loud'], /--manner "loud" is not one of refuse, silent/],
] as const)
  test(`${args.join(' ')} is refused by name`, () => {
    assert.throws(() => parseOptions(args), { name: 'TypeError', message })
  })
