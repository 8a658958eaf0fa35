import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PluginOptions } from '@livery/core'
import * as v from 'valibot'
import type { Tree } from './document.ts'
import { isSecretPath, optionsSchema, pathsOf, withOptionDefaults } from './plugin-schema.ts'

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

function parse(given: Tree): unknown {
  const result = v.safeParse(
    optionsSchema(OPTIONS),
    withOptionDefaults(OPTIONS, given, 'ca', () => {}),
  )
  if (result.success) return result.output
  return result.issues.map(issue => `${issue.path?.map(({ key }) => String(key)).join('.')}: ${issue.message}`)
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
      inner: { key: 'k' },
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
  [{ name: 'x', size: 10 }, 'size: is no number from 1 to 9. Write digits only, without quotes.'],
  [{ name: 'x', level: 'high' }, 'level: is no number. Write digits only, without quotes.'],
  [{ name: 'x', names: 'a' }, 'names: is a string, no list. Write "- " before each entry, or [ ] around them.'],
  [{ name: 'x', labels: ['a'] }, 'labels: is a list, no mapping of names to values.'],
  [{ name: 'x', inner: { kay: 'x' } }, 'inner.kay: unknown key. Did you mean "key"? Known here: key.'],
  [{ name: 'x', many: [{}] }, 'many.0.at: is missing. Add the key "at".'],
  [{ name: 'x', many: [{ at: 1 }] }, 'many.0.at: is a number, no string. Write a path.'],
]
for (const [given, says] of REFUSALS)
  test(`refused: ${JSON.stringify(given)}`, () => {
    assert.deepEqual(parse(given), [says])
  })

test('paths and secrets are found at every depth', () => {
  const paths = pathsOf(OPTIONS, 'ca', option => option.type === 'path')
  assert.deepEqual(paths, ['ca.folder', 'ca.inner.key', 'ca.many[].at'])
  const secrets = new Set(['ca.labels', 'ca.many[].pin'])
  for (const shown of ['ca.label', 'ca.labels2', 'ca.inner', 'ca.many[0].at'])
    assert.ok(!isSecretPath(secrets, shown), shown)
  for (const hidden of ['ca.labels', 'ca.labels.x', 'ca.labels."a b"', 'ca.many', 'ca.many[1]', 'ca.many[1].pin'])
    assert.ok(isSecretPath(secrets, hidden), hidden)
})
