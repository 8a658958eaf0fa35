/** The run against a live CA: its report on a good client and on a bad one, and how it is aborted. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  type SpiffeId,
} from '@livery/core/plugin'
import { REFERENCE_CAPABILITIES, ReferenceClient } from '../../test/reference-plugin.ts'
import { FakeCA } from './kit/fake-ca.ts'
import { createKitContext, type KitContext } from './kit/kit-context.ts'
import { MovableClock } from './kit/movable-clock.ts'
import { type ConformanceResult, runAgainst } from './run-against.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'

async function setUp(t: TestContext): Promise<{ readonly ca: FakeCA; readonly context: KitContext }> {
  const clock = new MovableClock()
  const ca = await FakeCA.create({ clock })
  t.after(() => {
    ca[Symbol.dispose]()
    clock[Symbol.dispose]()
  })
  return { ca, context: createKitContext(clock, ca.trustDomain) }
}

test('a good client passes every case that applies, is reported case by case, and is closed', async t => {
  const { ca, context } = await setUp(t)
  const client = new ReferenceClient(ca, context)
  const reported: ConformanceResult[] = []
  const { results, passed, failed, skipped } = await runAgainst(client, {
    capabilities: REFERENCE_CAPABILITIES,
    identities: [WEB],
    parallel: 8,
    report: result => reported.push(result),
  })
  assert.deepEqual(reported, results)
  assert.deepEqual(
    results.filter(({ outcome }) => outcome === 'failed'),
    [],
  )
  assert.deepEqual([passed + skipped, failed], [results.length, 0])
  assert.ok(results.filter(({ outcome }) => outcome === 'skipped').every(({ detail }) => detail !== ''))
  await assert.rejects(client.trustBundle({ signal: new AbortController().signal }), /closed/)
})

test('a client that answers with the root in the chain fails the contract, and the report says why', async t => {
  const { ca, context } = await setUp(t)
  const good = new ReferenceClient(ca, context)
  const client: CAClient = {
    async issue(request: CertificateRequest): Promise<IssuedCertificate> {
      const { chain, roots = [] } = await good.issue(request)
      return { chain: [...chain, ...roots], roots }
    },
    [Symbol.asyncDispose]: () => good[Symbol.asyncDispose](),
  }
  const { roots: _roots, ...rest } = REFERENCE_CAPABILITIES
  const { results, failed } = await runAgainst(client, {
    capabilities: { ...rest, roots: 'none' },
    identities: [WEB],
    parallel: 2,
  })
  const failures = results.filter(({ outcome }) => outcome === 'failed')
  assert.equal(failures.length, failed)
  assert.deepEqual(new Set(failures.map(({ group }) => group)), new Set(['contract']))
  assert.match(failures[0]?.detail ?? '', /chain\[3\] is a root/)
})

test('a run that is aborted skips what is left, and closes the client', async t => {
  const { ca, context } = await setUp(t)
  const client = new ReferenceClient(ca, context)
  const controller = new AbortController()
  const { passed, skipped, results } = await runAgainst(client, {
    capabilities: REFERENCE_CAPABILITIES,
    identities: [WEB],
    signal: controller.signal,
    report: () => controller.abort(),
  })
  assert.deepEqual([passed, skipped], [1, results.length - 1])
  await assert.rejects(client.trustBundle({ signal: new AbortController().signal }), /closed/)
})

test('without an identity there is nothing to ask for: a TypeError that says so', async t => {
  const { ca, context } = await setUp(t)
  const client = new ReferenceClient(ca, context)
  const asked = runAgainst(client, { capabilities: REFERENCE_CAPABILITIES, identities: [] })
  await assert.rejects(asked, /TypeError: .*identities is empty/)
})

test('a CA that refuses the first request is asked no more, and the client is closed', async t => {
  const { ca, context } = await setUp(t)
  const client = new ReferenceClient(ca, context)
  context.credentials.failure = new CAError('unavailable', 'Nobody listens.')
  const { results, failed } = await runAgainst(client, { capabilities: REFERENCE_CAPABILITIES, identities: [WEB] })
  assert.deepEqual([results.length, failed], [1, 1])
  assert.match(results[0]?.detail ?? '', /Nobody listens\.\nThe other cases were not run/)
  await assert.rejects(client.trustBundle({ signal: new AbortController().signal }), /closed/)
})
