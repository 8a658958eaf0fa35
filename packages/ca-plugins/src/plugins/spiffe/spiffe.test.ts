import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { type CAChange, type CAClient, CAError, type IssuedCertificate, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { svidsOf, WorkloadApiStandIn, type WorkloadBehaviour } from '../../../test/workload-api-stand-in.ts'
import { FakeCA } from '../../conformance/kit/fake-ca.ts'
import { pluginContext, warningsOf } from '../../testing/plugin-context.ts'
import { SpiffeClient } from './client.ts'
import { spiffe } from './index.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'
const DOMAIN = 'cluster.local'

async function bench(t: TestContext, behaviour?: WorkloadBehaviour, draws: number[] = []) {
  const clock = new FakeClock()
  const ca = await FakeCA.create({ clock })
  const server = await WorkloadApiStandIn.start(join(temporaryFolder(t), 'api.sock'))
  t.after(() => server[Symbol.asyncDispose]())
  if (behaviour) server.behaviour = behaviour
  const context = pluginContext({ clock })
  const random = () => draws.shift() ?? 0.5
  const client: CAClient = new SpiffeClient(context, server.address, 10_000, random)
  t.after(() => client[Symbol.asyncDispose]())
  const give = async (identities: readonly SpiffeId[] = [WEB, API]): Promise<void> =>
    server.give(await svidsOf(ca, identities), { [DOMAIN]: ca.trustBundle() })
  await give()
  const issue = (identity: SpiffeId = WEB, signal = new AbortController().signal): Promise<IssuedCertificate> =>
    client.issue({ identity, ttlSeconds: 60, signal, csr: () => assert.fail('a CSR was asked for') })
  const roots = async () => await client.trustBundle?.({ signal: new AbortController().signal })
  const changes: CAChange[] = []
  let wake = Promise.withResolvers<void>()
  client.subscribe?.(change => {
    changes.push(change)
    wake.resolve()
  })
  const change = async (kind: CAChange['kind']): Promise<CAChange> => {
    for (;;) {
      const index = changes.findIndex(each => each.kind === kind)
      const [found] = index < 0 ? [] : changes.splice(index, 1)
      if (found) return found
      wake = Promise.withResolvers()
      await wake.promise
    }
  }
  return { clock, ca, server, context, client, give, issue, roots, change }
}

const leafOf = ({ chain }: IssuedCertificate) => new X509Certificate(chain[0] ?? '')

test('an identity has the certificate, the key and the roots that the Workload API gives it', async t => {
  const { ca, issue, roots } = await bench(t)
  for (const identity of [WEB, API]) {
    const issued = await issue(identity)
    assert.equal(leafOf(issued).subjectAltName, `URI:${identity}`)
    assert.ok(leafOf(issued).checkPrivateKey(createPrivateKey(Buffer.from(issued.privateKey ?? []))))
    assert.deepEqual(issued.roots, ca.trustBundle())
    assert.equal(issued.chain.length, 3)
  }
  assert.deepEqual(await roots(), ca.trustBundle())
})

test('many requests are served by one connection and one stream of each kind, with the header that the API demands', async t => {
  const { server, issue, roots } = await bench(t)
  await Promise.all([...Array.from({ length: 20 }, () => issue()), roots(), roots()])
  assert.equal(server.connections, 1)
  assert.deepEqual(server.opened.map(({ method }) => method).sort(), ['FetchX509Bundles', 'FetchX509SVID'])
  for (const { metadata } of server.opened) assert.deepEqual(metadata.get('workload.spiffe.io'), ['true'])
})

test('a caller can wipe its key: the next caller gets it whole', async t => {
  const { issue } = await bench(t)
  const { privateKey } = await issue()
  privateKey?.fill(0)
  const again = await issue()
  assert.ok(leafOf(again).checkPrivateKey(createPrivateKey(Buffer.from(again.privateKey ?? []))))
})

test('a key that is given out was never a string, which nobody could wipe', async t => {
  const { issue } = await bench(t)
  await issue()
  const buffers: Buffer = Buffer.prototype
  const { mock } = t.mock.method(buffers, 'toString')
  const { privateKey } = await issue()
  const strings = mock.calls.map(({ result }) => result ?? '')
  mock.restore()
  const pem = Buffer.from(privateKey ?? []).toString()
  const [, line = assert.fail('there is no key')] = pem.split('\n')
  assert.equal(strings.filter(text => text.includes(line)).length, 0)
})

test('the changes of a push are reported: certificates by their identities, then the new one is served', async t => {
  const { ca, server, issue, change } = await bench(t)
  const before = leafOf(await issue())
  const [api] = await svidsOf(ca, [API])
  const [web] = await svidsOf(ca, [WEB])
  server.give(
    [web, api].flatMap(each => each ?? []),
    { [DOMAIN]: ca.trustBundle() },
  )
  assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: [WEB, API] })
  server.give([...(await svidsOf(ca, [WEB])), ...(api ? [api] : [])], { [DOMAIN]: ca.trustBundle() })
  assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: [WEB] })
  assert.notEqual(leafOf(await issue()).serialNumber, before.serialNumber)
})

test('a new root is reported and listed beside the old one, and is removed when the API drops it', async t => {
  const { ca, give, issue, roots, change } = await bench(t)
  await issue()
  await roots()
  await change('roots')
  const [old] = ca.trustBundle()
  await ca.addRoot()
  await give()
  await change('roots')
  assert.deepEqual(await roots(), ca.trustBundle())
  assert.equal((await roots())?.length, 2)
  await ca.switchRoot()
  await ca.dropOldRoots()
  await give()
  await change('roots')
  // One of the two streams may still have it.
  while ((await roots())?.includes(old ?? '')) await change('roots')
  assert.deepEqual(await roots(), ca.trustBundle())
})

test('the denial of an identity lists those that the API gives; its arrival and removal are reported', async t => {
  const { clock, give, issue, change } = await bench(t)
  const other: SpiffeId = 'spiffe://cluster.local/ns/default/sa/other'
  await assert.rejects(issue(other), (error: unknown) => {
    assert.ok(error instanceof CAError && error.code === 'denied')
    return error.message.includes(`${WEB}, ${API}`)
  })
  await give([WEB, other])
  const changed = await change('certificates')
  assert.deepEqual(changed.kind === 'certificates' && [...(changed.identities ?? [])].sort(), [other, WEB].sort())
  assert.ok(await issue(other))
  const denied = assert.rejects(issue(API), { code: 'denied' })
  await clock.advance(1_000)
  assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: [API] })
  await denied
  await assert.rejects(issue(API), { code: 'denied' })
})

test('an identity that is back within a second was never gone: who asks meanwhile waits, and nothing is reported of it', async t => {
  const { clock, context, give, issue, change } = await bench(t)
  await issue()
  await give([API])
  await change('certificates')
  const asked = issue()
  await clock.advance(999)
  await give([WEB, API])
  assert.equal(leafOf(await asked).subjectAltName, `URI:${WEB}`)
  const changed = await change('certificates')
  assert.deepEqual(changed.kind === 'certificates' && changed.identities, [WEB, API])
  const controller = new AbortController()
  await give([API])
  await change('certificates')
  const aborted = assert.rejects(issue(WEB, controller.signal), { message: 'enough' })
  await setImmediate()
  controller.abort(new Error('enough'))
  await aborted
  assert.deepEqual(warningsOf(context), [])
})

test('a request for an identity that may be back ends when the stream breaks', async t => {
  const { clock, server, give, issue, change } = await bench(t)
  await issue()
  await give([API])
  await change('certificates')
  server.behaviour = { kind: 'refuse', code: status.UNAVAILABLE }
  const broken = assert.rejects(issue(), { code: 'unavailable' })
  server.reset()
  const opened = server.opened.length
  while (server.opened.length === opened) {
    await setImmediate()
    await clock.advance(10)
  }
  await broken
})

test('a process that has no identity for a moment is no warning, and one that has none again is', async t => {
  const { clock, server, context, issue } = await bench(t)
  await issue()
  const refuse = async (): Promise<void> => {
    server.behaviour = { kind: 'refuse', code: status.PERMISSION_DENIED, details: 'no identity issued' }
    const reports = context.lines.length
    server.refuse(status.PERMISSION_DENIED, 'no identity issued')
    // Each stream reports once.
    while (context.lines.length < reports + 2) await setImmediate()
  }
  await refuse()
  server.behaviour = { kind: 'push' }
  await clock.advance(1_000)
  await issue()
  assert.deepEqual(warningsOf(context), [])
  await refuse()
  const denied = assert.rejects(issue(), { code: 'denied' })
  await clock.advance(1_000)
  await denied
  assert.equal(warningsOf(context).length, 1)
})

test('a request that is aborted in the turn in which it is made rejects, though its answer is there', async t => {
  const { issue } = await bench(t)
  await issue()
  const controller = new AbortController()
  const asked = issue(WEB, controller.signal)
  controller.abort(new Error('aborted in the same turn'))
  await assert.rejects(asked, { message: 'aborted in the same turn' })
  assert.ok(await issue())
})

test('of ten thousand and one that were asked for in vain, the oldest is forgotten', async t => {
  const { clock, server, issue, give, change } = await bench(t, { kind: 'refuse', code: status.INVALID_ARGUMENT })
  const names = Array.from({ length: 10_001 }, (_, index): SpiffeId => `spiffe://cluster.local/sa-${index}`)
  for (const name of names) await assert.rejects(issue(name), { code: 'bad-response' })
  await give(names.slice(0, 3))
  server.behaviour = { kind: 'push' }
  await clock.advance(300_000)
  assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: names.slice(1, 3) })
})

test('of many identities ten are named', async t => {
  const { clock, give, issue, change } = await bench(t)
  const many = Array.from({ length: 12 }, (_, index): SpiffeId => `spiffe://cluster.local/many/${index}`)
  await issue()
  await give(many)
  await change('certificates')
  await clock.advance(1_000)
  await assert.rejects(issue(WEB), /many\/9 and 2 more\. Register it/)
})

const CODES: readonly (readonly [status, string, boolean])[] = [
  [status.PERMISSION_DENIED, 'denied', false],
  [status.UNAVAILABLE, 'unavailable', true],
  [status.INVALID_ARGUMENT, 'bad-response', false],
  [status.UNIMPLEMENTED, 'bad-response', false],
  [status.UNAUTHENTICATED, 'unauthenticated', true],
  [status.RESOURCE_EXHAUSTED, 'rate-limited', true],
  [status.INTERNAL, 'unavailable', true],
]
for (const [code, says, retryable] of CODES)
  test(`${status[code]} of the API is reported as ${says}`, async t => {
    const { issue, roots } = await bench(t, { kind: 'refuse', code, details: 'no "eyJhbGciOi.secret"\nfor you' })
    const refused = assert.rejects(roots(), { code: says })
    await assert.rejects(issue(), (error: unknown) => {
      assert.ok(error instanceof CAError)
      assert.deepEqual([error.code, error.retryable], [says, retryable])
      assert.doesNotMatch(error.message, /secret|\n/)
      return error.message.includes(`${status[code]}: no`)
    })
    await refused
  })

test('when no identity is issued the error says so, and what to do', async t => {
  const { issue } = await bench(t, { kind: 'refuse', code: status.PERMISSION_DENIED, details: 'no identity issued' })
  await assert.rejects(
    issue(),
    /no identity issued\. It has no identity for this process\. Register one with selectors/,
  )
})

test('a refused stream is opened again after 1, 2, 4, … 30 s, and its news reported for requests that failed', async t => {
  const { clock, server, context, issue, change } = await bench(t, { kind: 'refuse', code: status.UNAVAILABLE })
  await assert.rejects(issue(), { code: 'unavailable' })
  const svidStreams = () => server.opened.filter(({ method }) => method === 'FetchX509SVID').length
  for (const [index, seconds] of [1, 2, 4, 8, 16, 30, 30].entries()) {
    const due = clock.now() + seconds * 1_000
    await clock.waitForDeadline(time => time === due)
    await clock.advance(seconds * 1_000 - 1)
    assert.equal(svidStreams(), index + 1)
    if (seconds === 30 && index === 6) server.behaviour = { kind: 'push' }
    await clock.advance(1)
    await server.opening(server.opened.length)
  }
  assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: [WEB] })
  assert.ok(await issue())
  // The same reason is a warning once.
  assert.equal(warningsOf(context).length, 1)
})

test('nodes whose streams break at once open them again at different times, and who asks makes it no later', async t => {
  const { clock, server, issue } = await bench(t, { kind: 'refuse', code: status.UNAVAILABLE }, [0.1, 0.1])
  await assert.rejects(issue(), { code: 'unavailable' })
  const svidStreams = () => server.opened.filter(({ method }) => method === 'FetchX509SVID').length
  const asked = assert.rejects(issue(), { code: 'unavailable' })
  await clock.advance(599)
  assert.equal(svidStreams(), 1)
  await clock.advance(1)
  await asked
  assert.equal(svidStreams(), 2)
})

test('a request while the stream is broken has it opened soon, and waits for the outcome', async t => {
  const { clock, server, issue } = await bench(t, { kind: 'refuse', code: status.UNAVAILABLE })
  await assert.rejects(issue(), { code: 'unavailable' })
  for (let attempt = 1; attempt <= 4; attempt++) {
    if (attempt === 4) server.behaviour = { kind: 'push' }
    const asked = issue()
    const end = attempt === 4 ? asked : assert.rejects(asked, { code: 'unavailable' })
    // However often it has failed.
    await clock.advance(1_000)
    await end
  }
})

test('a request that may wait for its connection has the stream opened every second until then', async t => {
  const { clock, client, server, issue } = await bench(t, { kind: 'refuse', code: status.UNAVAILABLE })
  await assert.rejects(issue(), { code: 'unavailable' })
  const { signal } = new AbortController()
  const request = { identity: WEB, ttlSeconds: 60, connectWithinMs: 2_500, signal, csr: () => assert.fail() }
  const nextAttempt = async () => {
    await clock.waitForDeadline(time => time === clock.now() + 1_000)
    await clock.advance(1_000)
  }
  const inVain = assert.rejects(client.issue(request), { code: 'unavailable' })
  await nextAttempt()
  await nextAttempt()
  await inVain
  const waiting = client.issue(request)
  await nextAttempt()
  server.behaviour = { kind: 'push' }
  await nextAttempt()
  assert.equal(leafOf(await waiting).subjectAltName, `URI:${WEB}`)
})

test('an answer ends the waiting for a connection', async t => {
  const { client } = await bench(t, { kind: 'refuse', code: status.PERMISSION_DENIED })
  const { signal } = new AbortController()
  const request = { identity: WEB, ttlSeconds: 60, connectWithinMs: 60_000, signal, csr: () => assert.fail() }
  await assert.rejects(client.issue(request), { code: 'denied' })
})

test('after INVALID_ARGUMENT it is not asked again at once, whatever the caller', async t => {
  const { clock, server, issue } = await bench(t, { kind: 'refuse', code: status.INVALID_ARGUMENT })
  for (let i = 0; i < 3; i++) {
    await assert.rejects(issue(), /INVALID_ARGUMENT.*no proxy/)
    await clock.advance(60_000)
  }
  assert.equal(server.opened.filter(({ method }) => method === 'FetchX509SVID').length, 1)
  server.behaviour = { kind: 'push' }
  await clock.advance(120_000)
  assert.ok(await issue())
})

for (const how of ['reset', 'end'] as const)
  test(`a stream that breaks (${how}) is opened again, and only changes are reported`, async t => {
    const { clock, server, issue, roots, change, give } = await bench(t)
    const before = leafOf(await issue()).serialNumber
    await roots()
    server[how]()
    await clock.waitForDeadline(time => time === clock.now() + 1_000)
    await clock.advance(1_000)
    await server.opening(3)
    assert.equal(leafOf(await issue()).serialNumber, before)
    await give()
    assert.deepEqual(await change('certificates'), { kind: 'certificates', identities: [WEB, API] })
  })

test('a Workload API that never answers is a timeout, and the signal of the caller ends the waiting', async t => {
  const { clock, server, issue } = await bench(t, { kind: 'silent' })
  const controller = new AbortController()
  const given = assert.rejects(issue(WEB, controller.signal), /nobody/)
  const asked = assert.rejects(issue(), { code: 'timeout', message: /no answer within 10000 ms/ })
  await server.opening(1)
  controller.abort(new Error('nobody waits'))
  await given
  await clock.advance(10_000)
  await asked
})

test('without anybody at the socket it is unavailable, and names it', async t => {
  const context = pluginContext()
  const path = join(temporaryFolder(t), 'none.sock')
  const client = await spiffe.create(context, { address: `unix://${path}` })
  t.after(() => client[Symbol.asyncDispose]())
  const { signal } = new AbortController()
  const asked = client.issue({ identity: WEB, ttlSeconds: 60, signal, csr: () => assert.fail() })
  await assert.rejects(asked, (error: unknown) => {
    assert.ok(error instanceof CAError && error.code === 'unavailable')
    return error.message.includes(path) && /SPIRE/.test(error.message)
  })
})

test('an invalid message of the Workload API is a bad response', async t => {
  for (const bytes of [Buffer.from('<!DOCTYPE html>'), Buffer.alloc(0)]) {
    const { issue } = await bench(t, { kind: 'bytes', bytes })
    await assert.rejects(issue(), { code: 'bad-response', message: /its answer/ })
  }
})

test('bundles of other trust domains are federated ones, whose changes are reported; a hint comes with its certificate', async t => {
  const { ca, server, client, change } = await bench(t)
  const other = await FakeCA.create({ clock: new FakeClock() })
  const federated = async () => await client.federatedBundles?.({ signal: new AbortController().signal })
  assert.deepEqual([...((await federated()) ?? [])], [])
  await change('roots')
  const svids = await svidsOf(ca, [WEB, API])
  const hinted = svids.map((svid, index) => ({ ...svid, hint: ['internal', 'x'.repeat(1_025)][index] ?? '' }))
  server.give(hinted, { [DOMAIN]: ca.trustBundle(), 'other.example': other.trustBundle() })
  await change('roots')
  assert.deepEqual([...((await federated()) ?? [])], [['other.example', other.trustBundle()]])
  const request = { ttlSeconds: 60, signal: new AbortController().signal, csr: () => assert.fail('no CSR') }
  assert.equal((await client.issue({ ...request, identity: WEB })).hint, 'internal')
  assert.equal((await client.issue({ ...request, identity: API })).hint, undefined)
  server.give(hinted, { [DOMAIN]: ca.trustBundle() })
  await change('roots')
  assert.deepEqual([...((await federated()) ?? [])], [])
})

test('for a server without bundles, those of its identities are reported', async t => {
  const { ca, roots } = await bench(t, {
    kind: 'refuse',
    code: status.UNIMPLEMENTED,
    method: 'FetchX509Bundles',
  })
  assert.deepEqual(await roots(), ca.trustBundle())
})

test('a server of other trust domains is refused with their names', async t => {
  const { ca, server, roots, change } = await bench(t)
  const svids = await svidsOf(ca, [WEB])
  server.give(
    svids.map(svid => ({ ...svid, identity: 'spiffe://other.example/web' })),
    { 'other.example': ca.trustBundle() },
  )
  const outcome = async () => await roots().catch((error: unknown) => error)
  let last = await outcome()
  // One of the two streams may still have the old ones.
  while (Array.isArray(last)) {
    await change('roots')
    last = await outcome()
  }
  assert.ok(last instanceof CAError && last.code === 'bad-response')
  assert.match(last.message, /cluster\.local, but of: other\.example\. Set trustDomain/)
})

test('closing ends both streams and every call', async t => {
  const { client, server, issue, roots } = await bench(t)
  await Promise.all([issue(), roots()])
  await Promise.all([client[Symbol.asyncDispose](), client[Symbol.asyncDispose]()])
  await Promise.all([issue(), roots()].map(call => assert.rejects(call, /closed/)))
  assert.throws(() => client.subscribe?.(() => {}), /closed/)
  while (server.open > 0) await setImmediate()
})
