/** Messages between the agent and a plugin in its own process. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { CAError, type SpiffeId } from '@livery/core/plugin'
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

test('tokens, connection, log and counters of the agent are there, and what it prints is a line of the log', async t => {
  const bench = await setUp(t)
  const onIssue = `
    const { token } = await context.credentials.get({ tokenFile: request.tokenFile, signal: request.signal })
    const [first, second] = [await context.tls(), await context.tls()]
    const { description, isConfigured } = context.credentials
    console.log('printed')
    context.metrics.counter('calls', 'Calls.').add(2)
    try { context.metrics.counter('Wrong name', '') } catch (error) { context.log.warn(error.message) }
    throw new CAError('denied', [token === 'secret', first === second, Buffer.isBuffer(first.roots), first.roots, description, isConfigured({}), request.replaces.failingSince].join(), { retryAfterMs: 5, local: true, deferred: request.replaces.notAfter })`
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
    client.issue({
      identity: BAD,
      ttlSeconds: 60,
      tokenFile: '/t',
      replaces: { notAfter: 7, failingSince: 6 },
      signal: never,
      csr: assert.fail,
    }),
    (error: unknown) => {
      assert.ok(error instanceof CAError)
      assert.deepEqual(
        [error.code, error.message, error.retryable, error.retryAfterMs, error.local, error.deferred],
        ['denied', 'true,true,true,roots,a token,false,6', false, 5, true, 7],
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
