import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSpiffeId } from './spiffe-id.ts'
import { matchesSpiffePattern, parseSpiffePattern, spiffePatternProblem } from './spiffe-pattern.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web-1'

function matches(pattern: string, identity: string): boolean {
  return matchesSpiffePattern(parseSpiffePattern(pattern), parseSpiffeId(identity))
}

test('a star matches inside one segment, two stars match the rest of the path', () => {
  const matching = [WEB, 'spiffe://cluster.local/ns/*/sa/*', 'spiffe://cluster.local/ns/*/sa/web-*']
  const open = ['spiffe://cluster.local/**', 'spiffe://cluster.local/ns/**', 'spiffe://cluster.local/ns/d*t/sa/**']
  for (const pattern of [...matching, ...open]) assert.ok(matches(pattern, WEB), pattern)
  const others = [
    'spiffe://cluster.local/ns/*',
    'spiffe://cluster.local/ns/*/sa/web-1*',
    'spiffe://cluster.local/ns/default/sa/web-1/**',
  ]
  const domains = ['spiffe://clusterxlocal/**', 'spiffe://local/**']
  for (const pattern of [...others, ...domains]) assert.ok(!matches(pattern, WEB), pattern)
  assert.ok(!matches('spiffe://cluster.local/ns/a.b', 'spiffe://cluster.local/ns/axb'), 'a dot is a dot')
})

test('a pattern that matches nothing is refused with the reason', () => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['cluster.local/ns/*', /does not start with "spiffe:/],
    ['spiffe://Cluster.local/*', /has a trust domain that has a character/],
    ['spiffe://*/ns/a', /has a trust domain that has a character/],
    ['spiffe://cluster.local', /has no path, so it matches nothing/],
    ['spiffe://cluster.local/**/x', /has \*\* before its last segment/],
    ['spiffe://cluster.local/a**', /the path segment "a\*\*", which matches nothing/],
    ['spiffe://cluster.local/ns/../*', /the path segment "\.\.", which matches nothing/],
    ['spiffe://cluster.local/ns//*', /the path segment "", which matches nothing/],
    ['spiffe://cluster.local/(a+)+', /the path segment "\(a\+\)\+", which matches nothing/],
  ]
  for (const [pattern, reason] of refused) {
    assert.match(spiffePatternProblem(pattern) ?? '', reason, pattern)
    assert.throws(() => parseSpiffePattern(pattern), TypeError)
  }
})
