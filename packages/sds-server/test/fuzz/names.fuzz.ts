/** Resource names and SPIFFE IDs: read or refused, and what is accepted means the same to a URL parser. */
import assert from 'node:assert/strict'
import { isSpiffeId, parseSpiffeId, trustDomainOf, trustDomainProblem } from '@livery/core/plugin'
import fc from 'fast-check'
import { parseResourceName } from '../../src/protocol/resource-name.ts'

const NAMES = { default: 'default', root: 'ROOTCA', all: 'ALL' }
const PIECES = [
  'spiffe://',
  'spiffe:/',
  'SPIFFE://',
  'cluster.local',
  'ns',
  'sa',
  '/',
  '//',
  '.',
  '..',
  '%2e',
  '%00',
  '?',
]
const MORE = [
  '#',
  '@',
  ':',
  '\\',
  '\n',
  '\u0000',
  'ROOTCA',
  'default',
  'file-cert:',
  '*',
  '[::1]',
  'xn--',
  'ü',
  '💥',
  ' ',
]

const text = fc.oneof(
  fc.array(fc.oneof(fc.constantFrom(...PIECES, ...MORE), fc.string({ maxLength: 8 })), { maxLength: 24 }),
  fc.tuple(fc.constantFrom('spiffe://cluster.local/', 'spiffe://'), fc.stringMatching(/^[A-Za-z0-9._/-]{0,60}$/)),
)

export const inputs = fc.record({ text: text.map(parts => parts.join('')), times: fc.constantFrom(1, 1, 1, 50, 5_000) })

export function run({ text: once, times }: { readonly text: string; readonly times: number }): void {
  const name = once.repeat(times)
  const parsed = parseResourceName(name, NAMES)
  assert.equal(parsed.kind === 'identity', isSpiffeId(name))
  if (parsed.kind === 'bundle') assert.equal(trustDomainProblem(parsed.trustDomain), undefined)
  if (parsed.kind === 'unknown') assert.ok(parsed.reason.length < 300, 'a reason of bounded length')
  if (isSpiffeId(name)) checkIdentity(name)
  else assert.throws(() => parseSpiffeId(name), TypeError)
}

function checkIdentity(name: string): void {
  assert.ok(Buffer.byteLength(name) <= 2048)
  const url = new URL(name)
  assert.equal(url.href, name)
  assert.equal(url.hostname, trustDomainOf(parseSpiffeId(name)))
  assert.deepEqual([url.username, url.password, url.port, url.search, url.hash], ['', '', '', '', ''])
}
