import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseOptions } from './options.ts'

test('without options it is ten thousand identities for half an hour', () => {
  assert.deepEqual(parseOptions([]), {
    identities: 10_000,
    ttlMs: 60_000,
    forMs: 1_800_000,
    connections: 100,
    ca: 'livery',
    caAwayMs: 0,
    attack: false,
    save: false,
  })
})

for (const [args, message] of [
  [['--identities', '20001'], /--identities "20001" is not a whole number from 1 to 20000/],
  [['--minutes', '0.5'], /--minutes "0.5" is not a whole number/],
  [['--ttl', '1s'], /--ttl "1s" is less than 5000 ms/],
  [['--ca', 'istiod'], /--ca "istiod" is not one of livery, peer/],
] as const) {
  test(`${args.join(' ')} is refused by name`, () => {
    assert.throws(() => parseOptions(args), { name: 'TypeError', message })
  })
}
