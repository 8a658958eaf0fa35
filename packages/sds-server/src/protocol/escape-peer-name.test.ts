import assert from 'node:assert/strict'
import { test } from 'node:test'
import { property, string, assert as verify } from 'fast-check'
import { escapeNodeId, escapePeerName } from './escape-peer-name.ts'

test('a name as it should be is kept', () => {
  const name = 'spiffe://cluster.local/ns/default/sa/web'
  assert.equal(escapePeerName(name), name)
})

test('whatever could forge a line, a field, a label or a page is escaped', () => {
  assert.equal(
    escapePeerName('a\n"b"\\\u001b[0m\u202e\ud800'),
    'a\\u{a}\\u{22}b\\u{22}\\u{5c}\\u{1b}[0m\\u{202e}\\u{d800}',
  )
})

test('a long name is cut, and its length is given', () => {
  assert.equal(escapePeerName('x'.repeat(1_000_000)), `${'x'.repeat(256)}... (1000000 characters)`)
})

test('a node id is cut where its escapes make it long, and else as a name', () => {
  assert.equal(escapeNodeId('\u{1f600}'.repeat(256)), escapePeerName('\u{1f600}'.repeat(256)).slice(0, 288))
  assert.equal(escapeNodeId('x'.repeat(1_000_000)), escapePeerName('x'.repeat(1_000_000)))
})

test('every name becomes one line of ASCII without quotes', async () => {
  await verify(
    property(string({ unit: 'binary' }), name => assert.match(escapePeerName(name), /^[\x20-\x21\x23-\x7e]*$/)),
  )
})
