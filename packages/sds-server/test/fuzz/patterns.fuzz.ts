/** Patterns of `allow`: refused or read, and what they match is what a reading segment by segment says. */
import assert from 'node:assert/strict'
import { isSpiffeId } from '@livery/core/plugin'
import fc from 'fast-check'
import { AccessPolicy } from '../../src/access/policy.ts'
import { SdsServerError } from '../../src/socket/sds-server-error.ts'
import { MemorySource } from '../memory-source.ts'

const source = await MemorySource.create()
const segment = fc.constantFrom(
  'ns',
  'sa',
  'web',
  'a.b',
  'axb',
  '*',
  '**',
  'w*',
  '*b',
  '*.*',
  'a*b*c',
  '',
  '.',
  '..',
  '(a+)+',
  '$',
  '[a]',
)
const path = fc.array(segment, { maxLength: 6 })
const domain = fc.constantFrom('cluster.local', 'clusterxlocal', 'Cluster.local', '*', '')

export const inputs = fc.record({
  pattern: fc.record({ domain, path }),
  name: fc.record({
    domain,
    path: fc.array(fc.constantFrom('ns', 'sa', 'web', 'a.b', 'axb', 'a1b2c', '...', 'a'.repeat(500)), { maxLength: 6 }),
  }),
  stars: fc.constantFrom(0, 0, 0, 30),
})

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export function run({ pattern, name, stars }: Input): void {
  const allow = `${textOf(pattern)}${stars > 0 ? `/${'a*'.repeat(stars)}b` : ''}`
  const identity = textOf(name)
  const policy = read(allow)
  if (!policy || !isSpiffeId(identity)) return
  const isAllowed = policy.admit(undefined)?.mayHave({ kind: 'identity', identity })
  assert.equal(isAllowed, matches(allow.split('/'), identity.split('/')), `${allow} and ${identity}`)
}

function textOf({ domain: host, path: segments }: Input['name']): string {
  return `spiffe://${[host, ...segments].join('/')}`
}

function read(allow: string): AccessPolicy | undefined {
  try {
    return new AccessPolicy({ allow: [allow] }, source, { default: 'default', root: 'ROOTCA', all: 'ALL' })
  } catch (error) {
    assert.ok(error instanceof SdsServerError, String(error))
    return undefined
  }
}

function matches(pattern: readonly string[], identity: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '**'
  const fixed = isOpen ? pattern.slice(0, -1) : pattern
  if (isOpen ? identity.length <= fixed.length : identity.length !== fixed.length) return false
  return fixed.every((each, index) => matchesSegment(each, identity[index] ?? ''))
}

/** `*` stands for one character at least. */
function matchesSegment(pattern: string, text: string): boolean {
  let reachable = new Set([0])
  for (const character of pattern) {
    const next = new Set<number>()
    for (const at of reachable) {
      if (character === '*') for (let end = at + 1; end <= text.length; end++) next.add(end)
      else if (text[at] === character) next.add(at + 1)
    }
    reachable = next
  }
  return reachable.has(text.length)
}
