import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  parseSpiffeId,
  type SecretEvent,
  SecretManager,
} from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import type { StreamInfo } from '@livery/sds-server'
import * as api from '@opentelemetry/api'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { CertificateTraces } from './certificate-traces.ts'
import { Spans } from './spans.ts'
import { tracedCAClient } from './traced-ca-client.ts'

const WEB = parseSpiffeId('spiffe://cluster.local/ns/default/sa/web')
const API = parseSpiffeId('spiffe://cluster.local/ns/default/sa/api')
const ISSUED = { kind: 'issued', serialNumber: 'ab', notAfter: 1, renewAt: 0 } as const

function bench() {
  const clock = new FakeClock()
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const traces = new CertificateTraces(new Spans(api, provider.getTracer('test'), clock), clock)
  const happen = (name: string, ...events: readonly SecretEvent[]) => {
    for (const event of events) traces.secret({ name, time: clock.now(), event })
  }
  return { clock, traces, happen, ended: () => exporter.getFinishedSpans() }
}

/** Traces what happens to the certificate of {@link WEB}, from the first request on. */
function holdWeb(ca: CAClient, clock: FakeClock, traces: CertificateTraces): SecretManager {
  const keyGenerator = new TestKeyGenerator()
  const secrets = new SecretManager({ ca, clock, keyGenerator, trustDomain: 'cluster.local', random: () => 0 })
  secrets.events.subscribe(report => traces.secret(report))
  secrets.add(WEB)
  return secrets
}

function outline({ name, status, attributes }: ReadableSpan): readonly unknown[] {
  return [name, status.code, attributes['error.type']]
}

test('a request that nobody answers is ended as failed, and so is what is open at the end', async () => {
  const { clock, traces, happen, ended } = bench()
  happen(WEB, { kind: 'csr-sent', reason: 'first' })
  await clock.advance(600_000)
  assert.deepEqual(ended().map(outline), [['certificate', 2, 'abandoned']])
  happen(API, { kind: 'csr-sent', reason: 'first' })
  traces[Symbol.dispose]()
  assert.equal(ended().length, 2)
})

test('a flood of identities has a bounded number of open spans, and ends none that another one needs', () => {
  const { traces, happen, ended } = bench()
  const name = (index: number) => `spiffe://cluster.local/flood/${index}`
  for (let index = 0; index < 5_000; index++) happen(name(index), { kind: 'csr-sent', reason: 'first' })
  for (let index = 0; index < 5_000; index++) happen(name(index), ISSUED)
  assert.equal(ended().length, 2_048)
  assert.ok(ended().every(({ status }) => status.code === 0))
  traces[Symbol.dispose]()
})

test('a second request of an identity begins another trace; one that is forgotten ends without an error', () => {
  const { happen, ended } = bench()
  happen(WEB, { kind: 'csr-sent', reason: 'first' }, { kind: 'ca-error', code: 'denied', message: 'no' })
  happen(WEB, { kind: 'csr-sent', reason: 'first' }, { kind: 'withdrawn', reason: 'forgotten' })
  assert.deepEqual(ended().map(outline), [
    ['certificate', 2, 'denied'],
    ['certificate', 0, undefined],
  ])
  assert.equal(new Set(ended().map(span => span.spanContext().traceId)).size, 2)
})

test('of a list of CAs each that is asked is a span below that of the list, and is handed its own place in the trace', async () => {
  const { clock, traces, happen, ended } = bench()
  const working = await TestCA.create(clock)
  const seen: (string | undefined)[] = []
  const member = tracedCAClient(
    {
      issue: async request => {
        seen.push(request.traceparent)
        return await working.issue(request)
      },
      [Symbol.asyncDispose]: async () => {},
    },
    'citadel at a',
    traces,
  )
  const list = tracedCAClient(
    { issue: request => member.issue(request), [Symbol.asyncDispose]: async () => {} },
    'failover: citadel at a',
    traces,
  )
  await using secrets = holdWeb(list, clock, traces)
  await secrets.get({ kind: 'identity', identity: WEB }, { signal: new AbortController().signal })
  const spans = new Map(ended().map(span => [span.attributes['livery.ca'] ?? span.name, span]))
  const inner = spans.get('citadel at a')
  const outer = spans.get('failover: citadel at a')
  assert.equal(inner?.parentSpanContext?.spanId, outer?.spanContext().spanId)
  assert.equal(spans.get('key')?.parentSpanContext?.spanId, outer?.spanContext().spanId)
  const { traceId, spanId } = inner?.spanContext() ?? assert.fail()
  assert.deepEqual(seen, [`00-${traceId}-${spanId}-01`])
  assert.equal(ended().filter(({ name }) => name === 'key').length, 1)
  happen(WEB, { kind: 'withdrawn', reason: 'forgotten' })
})

test('in a batch each request has its own span, and an error is that of its own request', async () => {
  const { traces, happen, ended } = bench()
  for (const identity of [WEB, API]) happen(identity, { kind: 'csr-sent', reason: 'first' })
  const ca = tracedCAClient(
    {
      issue: () => assert.fail('it has batches'),
      issueBatch: async requests =>
        requests.map(({ identity }) =>
          identity === WEB ? { chain: [] } : new CAError('denied', `not for ${identity} with password=hunter2`),
        ),
      [Symbol.asyncDispose]: async () => {},
    },
    'batches',
    traces,
  )
  const request = (identity: CertificateRequest['identity']): CertificateRequest => ({
    identity,
    ttlSeconds: 60,
    signal: new AbortController().signal,
    csr: () => assert.fail('nobody asks'),
  })
  const answers = await ca.issueBatch?.([request(WEB), request(API)])
  assert.equal(answers?.length, 2)
  const [web, own] = ended()
  assert.deepEqual([web?.attributes['livery.identity'], web?.status.code], [WEB, 0])
  assert.deepEqual([own?.attributes['livery.identity'], own?.attributes['error.type']], [API, 'denied'])
  assert.doesNotMatch(JSON.stringify([own?.status, own?.attributes]), /hunter2/)
  assert.equal(ca.trustBundle, undefined)
  traces[Symbol.dispose]()
})

test('a push ends with the answer of its client, as failed where that rejects it or gives none, and at once where there are no answers', async () => {
  const { clock, traces, ended } = bench()
  await using secrets = holdWeb(await TestCA.create(clock), clock, traces)
  const { version } = await secrets.get({ kind: 'identity', identity: WEB }, { signal: new AbortController().signal })
  const name = { name: WEB, ledgerName: WEB, version }
  const connection = { id: 1, socket: '/run/web.sock', caller: undefined }
  const stream = (id: number, method: StreamInfo['method'] = 'StreamSecrets'): StreamInfo => {
    return { id, method, connection, node: 'n', names: 1, openedAt: 0 }
  }
  const report = (info: StreamInfo, event: { readonly kind: 'pushed' | 'acked' | 'nacked' }) =>
    traces.sds(
      {
        kind: 'stream-report',
        stream: info,
        peer: 'x',
        report: { ...name, lagMs: 1, detail: 'no such curve', ...event },
      },
      secrets,
    )
  const pushes = () => ended().filter(span => span.name === 'push')
  report(stream(1), { kind: 'pushed' })
  report(stream(2), { kind: 'pushed' })
  report(stream(3), { kind: 'pushed' })
  assert.deepEqual(pushes(), [])
  report(stream(4, 'FetchX509SVID'), { kind: 'pushed' })
  report(stream(1), { kind: 'acked' })
  report(stream(2), { kind: 'nacked' })
  await clock.advance(60_000)
  report(stream(5), { kind: 'pushed' })
  traces[Symbol.dispose]()
  assert.deepEqual(
    pushes().map(span => [span.attributes['livery.stream'], ...outline(span).slice(1), span.status.message]),
    [
      [4, 0, undefined, undefined],
      [1, 0, undefined, undefined],
      [2, 2, 'nacked', 'no such curve'],
      [3, 2, 'unanswered', 'the client did not answer'],
    ],
  )
})
