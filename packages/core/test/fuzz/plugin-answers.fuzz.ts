/** Any answer, error or silence of a CA plugin: always a CAError in the ledger, never a crash, and nothing of it is kept. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { IssuedCertificate } from '../../src/contract/ca-client.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import { FakeClock } from '../../src/testing/fake-clock.ts'
import { TestCA } from '../../src/testing/test-ca.ts'
import { Bench } from '../manager-bench.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const clock = new FakeClock()
const ca = await TestCA.create(clock)
const stranger = await TestCA.create(clock)
const [foreign = ''] = stranger.roots
const PEMS: Record<string, string> = {
  $root: ca.roots[0] ?? '',
  $foreign: foreign,
  $twice: `${ca.roots[0]}${stranger.roots[0]}`,
  $junk: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
}

/** JSON, with words that stand for what JSON cannot hold: `$root` and so on, `$bytes`, `$throw`, `$getter`, `$proxy`, `$undefined`. */
const word = fc.constantFrom(
  ...Object.keys(PEMS),
  '$key',
  '$throw',
  '$getter',
  '$proxy',
  '$undefined',
  '$leaf',
  'text',
  '',
)
const value = fc.oneof(word, fc.jsonValue({ maxDepth: 2 }), fc.array(word, { maxLength: 4 }))

export const inputs = fc.record({
  issued: fc.oneof(value, fc.record({ chain: value, roots: value, privateKey: value }, { requiredKeys: [] })),
  bundle: value,
})

/** It makes a manager, a key and a CSR, and verifies signatures. */
export const maxCpuMs = 300

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export async function run({ issued, bundle }: Input): Promise<void> {
  ca.requests.length = 0
  ca.trustBundle = async () => (await real(bundle, [])) as readonly string[]
  ca.answer = async (request, sign) => {
    const { chain } = await sign(request)
    return (await real(issued, chain)) as IssuedCertificate
  }
  // It asks for the roots at once.
  await using bench = await Bench.create({}, () => {}, { clock, ca })
  bench.manager.add(WEB)
  while (bench.count('ca-error') + bench.count('issued') === 0) await new Promise(setImmediate)
  if (bench.count('issued') > 0) return
  assert.equal(bench.served(WEB), undefined)
  const { code, message } = bench.last('ca-error')
  assert.match(code, /^[a-z-]+$/)
  assert.ok(message.length < 2_000, `a message of ${message.length} characters`)
  // Only the CA's own list can have named it.
  if (/\$(foreign|twice)/.test(JSON.stringify(bundle))) return
  const trusted = bench.manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
  const text = trusted?.kind === 'bundle' ? Buffer.from(trusted.trustedCa).toString() : ''
  assert.ok(!text.includes(foreign), 'a root of a refused answer is trusted')
}

/** The recipe made real. */
async function real(recipe: unknown, leaf: readonly string[]): Promise<unknown> {
  if (typeof recipe === 'string') return PEMS[recipe] ?? special(recipe, leaf)
  if (Array.isArray(recipe)) return Promise.all(recipe.map(each => real(each, leaf)))
  if (typeof recipe !== 'object' || recipe === null) return recipe
  const entries = await Promise.all(Object.entries(recipe).map(async ([key, each]) => [key, await real(each, leaf)]))
  return Object.fromEntries(entries)
}

function special(recipe: string, leaf: readonly string[]): unknown {
  switch (recipe) {
    case '$leaf':
      return leaf
    case '$key':
      return new Uint8Array([1, 2, 3])
    case '$undefined':
      return undefined
    case '$throw':
      throw { toString: null }
    case '$getter':
      return Object.defineProperty([], 0, {
        get: () => {
          throw new Error('a getter')
        },
      })
    case '$proxy':
      return new Proxy([], {
        get: () => {
          throw new Error('a proxy')
        },
      })
    default:
      return recipe
  }
}
