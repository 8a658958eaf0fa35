import assert from 'node:assert/strict'
import { test } from 'node:test'
import { matchesLabels, parseLabelSelector } from './label-selector.ts'

const LABELS = new Map([
  ['app', 'web'],
  ['tier', 'a'],
  ['livery.dev/inject', 'true'],
  ['empty', ''],
])

test('selectors match as kubectl has them', () => {
  const cases: readonly (readonly [string, boolean])[] = [
    ['', true],
    ['app=web', true],
    ['app==web', true],
    ['app = web , tier=a', true],
    ['app=web,tier=b', false],
    ['app!=web', false],
    ['other!=web', true],
    ['app in (api, web)', true],
    ['app in (api)', false],
    ['app notin (api,db)', true],
    ['app notin (web)', false],
    ['other notin (web)', true],
    ['app', true],
    ['other', false],
    ['!other', true],
    ['! app', false],
    ['livery.dev/inject=true', true],
    ['empty=', true],
    ['other=', false],
    ['tier in (a,b),!other,app', true],
  ]
  for (const [text, expected] of cases) {
    const selector = parseLabelSelector(text)
    assert.ok(selector, text)
    assert.equal(matchesLabels(selector, LABELS), expected, text)
  }
})

test('what kubectl refuses is refused', () => {
  for (const text of [
    '=web',
    'app=a b',
    'app in web',
    'app in (a',
    'app,',
    ',',
    'app=-a',
    'Livery.dev/x=a',
    'app > 1',
    'a b',
  ])
    assert.equal(parseLabelSelector(text), undefined, text)
})
