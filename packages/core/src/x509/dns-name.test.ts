import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dnsNameProblem, dnsNamesProblem, MAX_DNS_NAMES } from './dns-name.ts'

test('labels of RFC 1123 make a name, with a wildcard as the whole first label at most', () => {
  const long = `${'a'.repeat(63)}.`.repeat(3)
  for (const name of ['a', 'web.example', '*.web.example', '1a.b-c.d', `${long}${'b'.repeat(61)}`])
    assert.equal(dnsNameProblem(name), undefined, name)
  const wrong = ['', '*', '.', 'a.', '.a', 'a..b', '-a.b', 'a-.b', 'a_b', 'w*.b', 'a.*.b', '*.*.b', 'é.b', 'a b', 'a\n']
  for (const name of [...wrong, 'A.b', '10.0.0.1', '::1', `${'a'.repeat(64)}.b`, `${long}${'b'.repeat(62)}`])
    assert.ok(dnsNameProblem(name), name)
})

test('a certificate has a bounded number of names, each once', () => {
  const names = Array.from({ length: MAX_DNS_NAMES }, (_, index) => `w${index}.example`)
  assert.equal(dnsNamesProblem(names), undefined)
  assert.ok(dnsNamesProblem([...names, 'one.more']))
  assert.ok(dnsNamesProblem(['a', 'a']))
  assert.ok(dnsNamesProblem([7]))
})
