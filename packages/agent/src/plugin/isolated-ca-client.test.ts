/** Messages between the agent and a plugin in its own thread. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { CAError, type SpiffeId } from '@livery/core'
import { setUp } from '../../test/isolated-bench.ts'

const GOOD: SpiffeId = 'spiffe://cluster.local/good'
const BAD: SpiffeId = 'spiffe://cluster.local/bad'
const never = new AbortController().signal

test('listeners that a plugin leaves on its signal are not left on the signal of the agent', async t => {
  const bench = await setUp(t)
  const client = await bench.open(t, {
    onIssue: `request.signal.addEventListener('abort', () => {}); throw new Error('no')`,
  })
  const { signal } = new AbortController()
  for (let time = 0; time < 20; time++)
    await assert.rejects(client.issue({ identity: BAD, ttlSeconds: 60, signal, csr: assert.fail }), /no/)
  assert.deepEqual(getEventListeners(signal, 'abort'), [])
})

test('an abort reaches the plugin with its reason, and ends the call at once', async t => {
  const bench = await setUp(t)
  const onIssue = `request.signal.addEventListener('abort', () => context.log.info('aborted: ' + request.signal.reason.message)); context.log.info('asked'); await new Promise(() => {})`
  const client = await bench.open(t, { onIssue })
  const controller = new AbortController()
  const asked = client.issue({ identity: BAD, ttlSeconds: 60, signal: controller.signal, csr: assert.fail })
  await bench.line(/asked/)
  controller.abort(new Error('enough'))
  await assert.rejects(asked, error => error === controller.signal.reason)
  await bench.line(/aborted: enough/)
})

test('a batch that the plugin never answers ends with the last of its requests, and nothing of it is kept', async t => {
  const bench = await setUp(t)
  const members = `async issueBatch(requests) {
    for (const { identity, signal, csr } of requests)
      signal.addEventListener('abort', () => {
        context.log.info('aborted ' + identity + ': ' + signal.reason.message)
        if (identity === '${BAD}') csr().catch(error => context.log.info(error.message))
      })
    context.log.info('asked')
    await new Promise(() => {})
  },`
  const client = await bench.open(t, { members }, {}, { batch: 10 })
  const [good, bad] = [new AbortController(), new AbortController()]
  const ofGood = { identity: GOOD, ttlSeconds: 60, signal: good.signal, csr: assert.fail }
  const ofBad = { identity: BAD, ttlSeconds: 60, signal: bad.signal, csr: assert.fail }
  let hasEnded = false
  const ended = client.issueBatch?.([ofGood, ofBad]).finally(() => {
    hasEnded = true
  })
  const refused = assert.rejects(ended ?? assert.fail('it takes no batch'), error => error === bad.signal.reason)
  await bench.line(/asked/)
  good.abort(new Error('enough'))
  await bench.line(/aborted .*good: enough/)
  assert.equal(hasEnded, false)
  bad.abort(new Error('too late'))
  await refused
  await bench.line(/aborted .*bad: too late/)
  await bench.line(/Cannot continue a request that has ended/)
  for (const { signal } of [good, bad]) assert.deepEqual(getEventListeners(signal, 'abort'), [])
})

test('a batch of which nobody waits any more is not sent', async t => {
  const bench = await setUp(t)
  const members = 'issueBatch: () => new Promise(() => {}),'
  const client = await bench.open(t, { members }, {}, { batch: 10 })
  const signal = AbortSignal.abort(new Error('enough'))
  const asked = client.issueBatch?.([{ identity: BAD, ttlSeconds: 60, signal, csr: assert.fail }])
  await assert.rejects(asked ?? assert.fail('it takes no batch'), error => error === signal.reason)
})

test('tokens, connection, log and counters of the agent are there, and what it prints is a line of the log', async t => {
  const bench = await setUp(t)
  const onIssue = `
    const { token } = await context.credentials.get({ tokenFile: request.tokenFile, signal: request.signal })
    const [first, second] = [await context.tls(), await context.tls()]
    const { description, isConfigured } = context.credentials
    console.log('printed')
    context.metrics.counter('calls', 'Calls.').add(2)
    try { context.metrics.counter('Wrong name', '') } catch (error) { context.log.warn(error.message) }
    throw new CAError('denied', [token === 'secret', first === second, Buffer.isBuffer(first.roots), first.roots, description, isConfigured({})].join(), { retryAfterMs: 5, local: true })`
  let asked: unknown
  const client = await bench.open(
    t,
    { onIssue },
    {
      credentials: {
        description: 'a token',
        isConfigured: () => false,
        get: async ({ tokenFile }) => {
          asked = tokenFile
          return { token: 'secret' }
        },
      },
      tls: (
        material => async () =>
          material
      )({ roots: Buffer.from('roots') }),
    },
  )
  await assert.rejects(
    client.issue({ identity: BAD, ttlSeconds: 60, tokenFile: '/t', signal: never, csr: assert.fail }),
    (error: unknown) => {
      assert.ok(error instanceof CAError)
      assert.deepEqual(
        [error.code, error.message, error.retryable, error.retryAfterMs, error.local],
        ['denied', 'true,true,true,roots,a token,false', false, 5, true],
      )
      return true
    },
  )
  await bench.line(/it printed: printed/)
  await bench.line(/Cannot count "Wrong name"/)
  assert.deepEqual([asked, bench.context.counts.get('calls')], ['/t', 2])
})

test('the note of a request that waits is kept by the agent, with the key', async t => {
  const bench = await setUp(t)
  const onIssue = `
    const { pem } = await request.csr()
    if (request.ticket.stored === undefined) { await request.ticket.store('note ' + pem.length + pem); throw new CAError('unavailable', 'pending') }
    if (request.ticket.stored !== 'note ' + pem.length + pem) throw new CAError('denied', 'another CSR')`
  const manager = bench.manage(t, await bench.open(t, { onIssue }))
  manager.add(GOOD)
  assert.equal((await bench.event(GOOD, 'ca-error')).message, 'pending')
  await bench.clock.advance(700)
  await bench.event(GOOD, 'issued')
})

test('closing lets the plugin close, and then every call rejects', async t => {
  const bench = await setUp(t)
  const client = await bench.open(t, {
    onIssue: `await new Promise(() => {})`,
  })
  const open = client.issue({ identity: BAD, ttlSeconds: 60, signal: never, csr: assert.fail })
  const refused = assert.rejects(open, /is closed/)
  await Promise.all([client[Symbol.asyncDispose](), client[Symbol.asyncDispose]()])
  await refused
  await assert.rejects(client.issue({ identity: BAD, ttlSeconds: 60, signal: never, csr: assert.fail }), {
    code: 'unavailable',
    retryable: false,
  })
  assert.deepEqual(bench.clock.deadlines(), [])
})
