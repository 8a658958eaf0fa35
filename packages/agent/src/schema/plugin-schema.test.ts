import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PluginOptions } from '@livery/core/plugin'
import { check, checkNode } from './check.ts'
import { complete } from './complete.ts'
import { UNWRITTEN } from './config-error.ts'
import { Location, nodeOf, plain, type Tree } from './config-tree.ts'
import { faultText } from './fault.ts'
import { markSecrets, optionsSchema } from './plugin-schema.ts'

const OPTIONS: PluginOptions = {
  name: { type: 'string', required: true, problem: text => (text === 'bad' ? 'is bad' : undefined), description: '' },
  mode: { type: 'string', choices: ['fast', 'slow'], default: 'fast', description: '' },
  pin: { type: 'string', secret: true, problem: text => `"${text}" is short. Write a longer one`, description: '' },
  folder: { type: 'path', description: '' },
  wait: { type: 'duration', min: '1s', max: '1m', default: '2s', description: '' },
  size: { type: 'number', min: 1, max: 9, description: '' },
  level: { type: 'number', description: '' },
  on: { type: 'boolean', default: true, description: '' },
  names: { type: 'list', default: ['a'], description: '' },
  labels: { type: 'map', secret: true, description: '' },
  inner: { type: 'object', options: { key: { type: 'path', default: 'k', description: '' } }, description: '' },
  many: {
    type: 'objects',
    options: {
      at: { type: 'path', required: true, description: '' },
      ttl: { type: 'duration', default: '3s', description: '' },
    },
    description: '',
  },
}

const PLACE = { terminal: false, workingDirectory: '/w' }

function parse(given: Tree): unknown {
  const schema = optionsSchema(OPTIONS)
  const checked = check(schema, plain(complete(schema, nodeOf(given, UNWRITTEN), PLACE)))
  if ('output' in checked) return checked.output
  return checked.refusals.map(({ path, fault }) => `${path.join('.')}: ${faultText(fault)}`)
}

test('a plugin gets its values with the defaults, durations in milliseconds, and nothing for what is left out', () => {
  assert.deepEqual(parse({ name: 'x' }), { name: 'x', mode: 'fast', wait: 2_000, on: true, names: ['a'] })
  assert.deepEqual(
    parse({
      name: 'x',
      mode: 'slow',
      folder: '/f',
      wait: '1m',
      size: 9,
      level: -0.5,
      on: false,
      names: [],
      labels: { a: 'b' },
      inner: {},
      many: [{ at: '/1' }, { at: '/2', ttl: '1s' }],
    }),
    {
      name: 'x',
      mode: 'slow',
      folder: '/f',
      wait: 60_000,
      size: 9,
      level: -0.5,
      on: false,
      names: [],
      labels: { a: 'b' },
      inner: { key: '/w/k' },
      many: [
        { at: '/1', ttl: 3_000 },
        { at: '/2', ttl: 1_000 },
      ],
    },
  )
})

const REFUSALS: readonly [Tree, string][] = [
  [{}, 'name: is missing. Add the key "name".'],
  [{ name: 'bad' }, 'name: is bad. Correct it.'],
  [{ name: '' }, 'name: is empty. Write a value, or remove the line.'],
  [{ name: 'x', pin: '123' }, 'pin: "***" is short. Write a longer one.'],
  [{ name: 'x', wait: '1h' }, 'wait: is longer than 1m. Write 1m or less.'],
  [{ name: 'x', size: 10 }, 'size: is not a number from 1 to 9. Write digits only, without quotes.'],
  [{ name: 'x', level: 'high' }, 'level: is not a number. Write digits only, without quotes.'],
  [{ name: 'x', names: 'a' }, 'names: is a string, not a list. Write "- " before each entry, or [ ] around them.'],
  [
    { name: 'x', labels: ['a'] },
    'labels: is a list, not a mapping of names to values. Write one name and its value per line.',
  ],
  [{ name: 'x', inner: { kay: 'x' } }, 'inner.kay: unknown key. Did you mean "key"? Known here: key.'],
  [{ name: 'x', many: [{}] }, 'many.0.at: is missing. Add the key "at".'],
  [{ name: 'x', many: [{ at: 1 }] }, 'many.0.at: is a number, not a string. Write a path.'],
]
for (const [given, says] of REFUSALS)
  test(`refused: ${JSON.stringify(given)}`, () => {
    assert.deepEqual(parse(given), [says])
  })

test('paths are made absolute at every depth, and nothing else is', () => {
  const given = {
    ...{ folder: 'f', mode: 'm', wait: 'w', on: 'o', names: 'n' },
    inner: { key: 'k' },
    many: [{ at: 'a', ttl: '1s' }, 'no mapping'],
  }
  const completed = complete(optionsSchema(OPTIONS), nodeOf(given, UNWRITTEN), PLACE)
  assert.deepEqual(JSON.parse(JSON.stringify(plain(completed))), {
    ...given,
    folder: '/w/f',
    inner: { key: '/w/k' },
    many: [{ at: '/w/a', ttl: '1s' }, 'no mapping'],
  })
})

test('a secret is hidden at every depth, and so is any value in its place', () => {
  const options: PluginOptions = {
    labels: { type: 'map', secret: true, description: '' },
    one: { type: 'object', options: { pin: { type: 'string', secret: true, description: '' } }, description: '' },
    many: { type: 'objects', options: { pin: { type: 'string', secret: true, description: '' } }, description: '' },
    open: { type: 'object', options: { at: { type: 'string', description: '' } }, description: '' },
  }
  const hidden = (given: Tree): string => {
    const faults = checkNode(optionsSchema(options), new Location(markSecrets(options, nodeOf(given, UNWRITTEN))))
    return 'refusals' in faults ? faults.refusals.map(({ path, reason }) => `${path}: ${reason}`).join() : 'accepted'
  }
  assert.equal(hidden({ labels: 'a b' }), 'labels: is a string, not a mapping of names to values')
  assert.equal(hidden({ labels: { x: ['s3cret'] } }), 'labels.x: is a list, not a string')
  assert.equal(hidden({ one: 's3cret' }), 'one: is a string, not a mapping')
  assert.equal(hidden({ one: { pin: 1 } }), 'one.pin: is a number, not a string')
  assert.equal(hidden({ many: { pin: 's3cret' } }), 'many: is a mapping, not a list')
  assert.equal(
    hidden({ many: ['s3cret', { pin: 2 }] }),
    'many[0]: is a string, not a mapping,many[1].pin: is a number, not a string',
  )
  assert.equal(hidden({ open: 'shown' }), 'open: "shown" is a string, not a mapping')
})
