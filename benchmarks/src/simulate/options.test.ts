import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseOptions, SCENARIOS } from './options.ts'

test('without options every scenario runs in its own way', () => {
  const options = parseOptions([])
  assert.deepEqual(options?.scenarios, SCENARIOS)
  assert.equal(options?.settings.nodes, 1_000)
  assert.equal(options?.settings.ttlMs, undefined)
})

test('durations and counts are read', () => {
  const settings = parseOptions(['--ttl', '1.5h', '--nodes', '7', '--retry-after', '250ms'])?.settings
  assert.deepEqual([settings?.ttlMs, settings?.nodes, settings?.retryAfterMs], [5_400_000, 7, 250])
})

test('help wants no run', () => {
  assert.equal(parseOptions(['--help']), undefined)
})

for (const [args, message] of [
  [['--nodes', '0'], /--nodes "0" is not a whole number from 1 to 100000/],
  [['--nodes', '1e3'], /--nodes "1e3" is not a whole number/],
  [['--ttl', '24'], /--ttl "24" is not a duration\. Write a number and a unit/],
  [['--ttl', '1s'], /--ttl "1s" is less than 10000 ms/],
  [['--scenario', 'boots'], /--scenario "boots" is not one of boot, steady/],
  [['--names', 'all'], /--names "all" is not one of own, shared/],
  [['--scale', '-1'], /scale/],
  [['--node', '3'], /--node/],
] as const) {
  test(`${args.join(' ')} is refused by name`, () => {
    assert.throws(() => parseOptions(args), { name: 'TypeError', message })
  })
}
