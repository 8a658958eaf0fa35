/** Misbehaving plugins in their own process: the agent continues, reports the reason, and recovers. */
import assert from 'node:assert/strict'
import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { CAClient, SpiffeId } from '@livery/core/plugin'
import { type Bench, setUp } from '../../test/isolated-bench.ts'

const GOOD: SpiffeId = 'spiffe://cluster.local/good'
const BAD: SpiffeId = 'spiffe://cluster.local/bad'
const never = new AbortController().signal

/** Below the plugin's context: what the agent's own code beside the plugin would send. */
const SEND = `const { writeSync } = await import('node:fs')
  const send = message => {
    const json = Buffer.from(JSON.stringify(message))
    const frame = Buffer.concat([Buffer.alloc(8), json])
    frame.writeUInt32BE(json.length + 4, 0)
    frame.writeUInt32BE(json.length, 4)
    for (let at = 0; at < frame.length; )
      try { at += writeSync(3, frame, at) } catch (error) { if (error.code !== 'EAGAIN') throw error }
  }`

async function failureOf(ca: CAClient, identity: SpiffeId): Promise<string> {
  const csr = () => Promise.reject(new Error('not asked'))
  return await ca.issue({ identity, ttlSeconds: 60, signal: never, csr }).then(
    () => assert.fail('it was answered'),
    (thrown: unknown) => String(thrown),
  )
}

/** The misdeed of a plugin at its first request for BAD, and the report of it. `dies`: its process is started again. */
const MISDEEDS: readonly {
  readonly what: string
  readonly does: string
  readonly says: RegExp
  readonly dies: boolean
}[] = [
  {
    what: 'throws a string',
    does: `throw 'boom'`,
    says: /unavailable: .*failed for .*bad: it threw "boom"/,
    dies: false,
  },
  { what: 'throws undefined', does: `throw undefined`, says: /unavailable: .*it threw undefined/, dies: false },
  {
    what: 'throws an object whose message cannot be read',
    does: `throw Object.defineProperty(new Error(), 'message', { get() { throw 1 } })`,
    says: /unavailable: .*it threw something that cannot be read/,
    dies: false,
  },
  {
    what: 'answers undefined',
    does: `return undefined`,
    says: /bad-response: .*breaks its contract: chain is not a list of PEM certificates/,
    dies: false,
  },
  {
    what: 'answers what cannot be sent',
    does: `return { chain: [() => {}] }`,
    says: /bad-response: .*breaks its contract: chain is not a list of PEM certificates/,
    dies: false,
  },
  {
    what: 'answers with 200,000 roots',
    does: `return { chain: ['x'], roots: Array.from({ length: 200_000 }, (_, i) => 'root ' + i) }`,
    says: /^bad-response: The CA plugin gave roots of 200000 elements with 2088890 characters in all, more than 101/,
    dies: false,
  },
  {
    what: 'answers with a chain of 2 MB',
    does: `return { chain: ['x'.repeat(2_000_000)] }`,
    says: /^bad-response: The CA plugin gave a chain of 1 elements with 2000000 characters in all, more than .* with 65536/,
    dies: false,
  },
  {
    what: 'answers with a key of 2 MB',
    does: `return { chain: ['x'], privateKey: new Uint8Array(2_000_000) }`,
    says: /^bad-response: The CA plugin gave a key /,
    dies: false,
  },
  {
    what: 'throws a CAError of another class',
    does: `throw Object.assign(new Error('no'), { name: 'CAError', code: 'denied', retryable: true, retryAfterMs: 1 })`,
    says: /^denied: no$/,
    dies: false,
  },
  {
    what: 'throws in a timer',
    does: `setTimeout(() => { throw new Error('late') }); await new Promise(() => {})`,
    says: /unavailable: The CA plugin acme \(\.\/acme\.mjs\) crashed: late\. It is started again within 0\.5 s/,
    dies: true,
  },
  {
    what: 'throws undefined in a timer',
    does: `setTimeout(() => { throw undefined }); await new Promise(() => {})`,
    says: /unavailable: .* crashed: it threw undefined\./,
    dies: true,
  },
  {
    what: 'leaves a rejection unhandled',
    does: `void Promise.reject(new Error('lost')); await new Promise(() => {})`,
    says: /unavailable: .* crashed: lost\./,
    dies: true,
  },
  {
    what: 'ends the process',
    does: `process.exit(3)`,
    says: /unavailable: .* ended its process \(exit code 3\)/,
    dies: true,
  },
  {
    what: 'takes all memory',
    does: `const all = []; for (;;) all.push(new Array(1_000_000).fill(all.length))`,
    says: /unavailable: .* used more than 256 MiB of memory/,
    dies: true,
  },
]

for (const { what, does, says, dies } of MISDEEDS)
  test(`a plugin that ${what} fails only that request, and continues`, async t => {
    const bench = await setUp(t)
    const onIssue = `if (request.identity.endsWith('bad') && once('done')) { ${does} }`
    const manager = bench.manage(t, await bench.open(t, { onIssue }))
    manager.add(GOOD)
    await bench.event(GOOD, 'issued')
    manager.add(BAD)
    const { code, message } = await bench.event(BAD, 'ca-error')
    assert.match(`${code}: ${message}`, says)
    assert.deepEqual(bench.errors(), dies ? [message] : [])
    assert.ok(bench.events.some(({ event }) => event.kind === 'ca-error' && event.message === message))
    assert.ok(manager.current({ kind: 'identity', identity: GOOD }))
    await bench.clock.advance(700)
    await bench.event(BAD, 'issued')
    assert.equal(bench.context.counts.get('restarts') ?? 0, dies ? 1 : 0)
  })

test('a plugin that never answers costs the deadline of that request, and the others have their certificates', async t => {
  const bench = await setUp(t)
  const onIssue = `if (request.identity.endsWith('bad')) { context.log.info('hangs'); await new Promise(() => {}) }`
  const ca = await bench.open(t, { onIssue })
  const manager = bench.manage(t, ca)
  manager.add(BAD)
  await bench.line(/hangs/)
  manager.add(GOOD)
  await bench.event(GOOD, 'issued')
  // The beats that fall due are answered in between.
  while (bench.events.every(({ event }) => event.kind !== 'ca-error')) {
    await bench.clock.advance(1_000)
    await assert.rejects(
      ca.issue({ identity: GOOD, ttlSeconds: 60, signal: never, csr: () => Promise.reject(new Error('round trip')) }),
    )
  }
  assert.equal((await bench.event(BAD, 'ca-error')).code, 'timeout')
  assert.deepEqual(bench.errors(), [])
})

test('an endless loop is noticed by its silence, and the process is replaced', async t => {
  const bench = await setUp(t)
  const onIssue = `if (once('done')) { context.log.info('loops'); for (;;); }`
  const manager = bench.manage(t, await bench.open(t, { onIssue }))
  manager.add(BAD)
  await bench.line(/loops/)
  await bench.clock.advance(12_000)
  const { code, message } = await bench.event(BAD, 'ca-error')
  assert.equal(code, 'unavailable')
  assert.match(
    message,
    /acme.* gave no sign of life for 10 s \(an endless loop\?\)\. It is started again within 0\.5 s/,
  )
  assert.deepEqual(bench.errors(), [message])
  await bench.clock.advance(700)
  await bench.event(BAD, 'issued')
  assert.equal(await bench.line(/runs again/), 'The CA plugin acme (./acme.mjs) runs again.')
})

const flood = `for (let n = 0; n < 20_000; n++) { context.log.warn('logged ' + n); console.log('printed ' + n) }`
const ofLevel = (bench: Bench, level: string) => bench.context.lines.filter(line => line.level === level).length

test('a flood of lines and a text of 50 MB cost the agent fifty lines of a level and the beginning of the text', async t => {
  const bench = await setUp(t)
  const onIssue = `if (request.identity.endsWith('bad')) { ${flood}; throw new Error('end' + ' x'.repeat(25_000_000)) }`
  const ca = await bench.open(t, { onIssue })
  const message = await failureOf(ca, BAD)
  assert.match(message, /^Error: end x x/)
  assert.ok(message.length <= 20_000)
  await bench.line(/printed 49$/)
  // And later one that says how many there were besides.
  assert.deepEqual([ofLevel(bench, 'warn'), ofLevel(bench, 'debug')], [49, 50])
})

test('a plugin that sends lines below its log has fifty of a level taken in 10 s', async t => {
  const bench = await setUp(t)
  const onIssue = `${SEND}
    for (let n = 0; n < 200; n++) send({ kind: 'call', method: 'log', argument: { level: 'warn', message: 'sent ' + n + ' x'.repeat(50_000) } })
    ${flood}; throw new Error('end')`
  const ca = await bench.open(t, { onIssue })
  assert.match(await failureOf(ca, BAD), /end/)
  assert.match(await failureOf(ca, BAD), /end/)
  await bench.line(/printed 49$/)
  assert.ok(bench.context.lines.every(({ message }) => message.length <= 20_000))
  assert.deepEqual([ofLevel(bench, 'warn'), ofLevel(bench, 'debug')], [50, 50])
  await bench.clock.advance(10_000)
  await bench.line(/^\d+ more lines of this kind \(warn\) in 10 s$/)
  await bench.line(/^\d+ more lines of this kind \(printed\) in 10 s$/)
})

test('a token that the plugin was given is in no text of it: thrown, logged, printed or of a crash', async t => {
  const bench = await setUp(t)
  const token = 'opaque/of+the=CA'
  const credentials = { description: 'a token', get: async () => ({ token }) }
  const texts = `const { token } = await context.credentials.get({ signal: request.signal })
    const text = token + ' ' + encodeURIComponent(token) + ' ' + Buffer.from('u:' + token).toString('base64')
    context.log.warn('told ' + text); console.log('printed ' + text)
    console.log('cut ' + (token + ' ').repeat(57) + '-'.repeat(10) + ' ' + token)`
  const onIssue = `${texts}
    if (request.identity.endsWith('bad')) throw new Error('thrown ' + text)
    setTimeout(() => { throw new Error('crash ' + text) }); await new Promise(() => {})`
  const ca = await bench.open(t, { onIssue }, { credentials })
  const thrown = [await failureOf(ca, BAD), await failureOf(ca, 'spiffe://cluster.local/crash')]
  await Promise.all([/told/, /printed: printed/, /printed: cut/].map(line => bench.line(line)))
  const all = [...thrown, ...bench.context.lines.map(({ message }) => message)].join('\n')
  assert.match(all, /thrown \[secret\] \[secret\]/)
  assert.match(all, /crash(ed: crash)? \[secret\]/)
  assert.doesNotMatch(all, /opaq|%2F|b3BhcXVl|9wYXF1/)
})

test('a token in the error of a create is hidden, too', async t => {
  const bench = await setUp(t)
  const credentials = { description: 'a token', get: async () => ({ token: 'opaque/of+the=CA' }) }
  const onCreate = `const { token } = await context.credentials.get({ signal: new AbortController().signal })
    throw new TypeError('Cannot use ' + token)`
  await assert.rejects(bench.open(t, { onCreate }, { credentials }), {
    name: 'TypeError',
    message: 'Cannot use [secret]',
  })
})

test('a process that is busy for a while is not replaced', async t => {
  const bench = await setUp(t)
  const busy = `context.log.info('busy'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)`
  const manager = bench.manage(t, await bench.open(t, { onIssue: busy }))
  manager.add(BAD)
  await bench.line(/busy/)
  await bench.clock.advance(6_000)
  await bench.event(BAD, 'issued')
  assert.deepEqual(bench.errors(), [])
})

test('a plugin that crashes without a request is started again, and later each time', async t => {
  const bench = await setUp(t)
  const onCreate = `setTimeout(() => { throw new Error('crash ' + (once('first') ? 1 : 2)) })`
  const client = await bench.open(t, { onCreate })
  await bench.line(/crash 1.*within 0\.5 s/)
  const asked = client.issue({ identity: BAD, ttlSeconds: 60, signal: never, csr: assert.fail })
  await assert.rejects(asked, /CAError: The CA plugin acme \(\.\/acme\.mjs\) crashed: crash 1\. It is started again/)
  await bench.clock.advance(500)
  await bench.line(/crash 2.*within 1 s/)
  await bench.clock.advance(999)
  assert.equal(bench.errors().length, 2)
})

test('a plugin that throws in create, or fails to load when it is started again, heals when it can', async t => {
  const bench = await setUp(t)
  const client = await bench.open(t, {
    onLoad: `if (existsSync(folder + '/broken')) throw new Error('broken module')`,
    onCreate: `if (once('created')) throw new Error('not yet')`,
    onIssue: `if (once('issued')) { once('broken'); process.exit(1) }`,
  })
  assert.match(bench.errors()[0] ?? '', /acme.* could not be started: not yet\. It is started again within 0\.5 s/)
  const manager = bench.manage(t, client)
  manager.add(BAD)
  assert.match((await bench.event(BAD, 'ca-error')).message, /could not be started: not yet/)
  await bench.clock.advance(700)
  assert.match((await bench.event(BAD, 'ca-error', 2)).message, /ended its process/)
  await bench.clock.advance(1_500)
  await bench.line(/could not be started: failed while it was loaded: broken module\./)
  await unlink(join(bench.folder, 'broken'))
  await bench.clock.advance(2_000)
  await bench.line(/runs again/)
  await bench.clock.advance(60_000)
  await bench.event(BAD, 'issued')
})

test('a create that never ends is given up after 30 s', async t => {
  const bench = await setUp(t)
  const opening = bench.open(t, {
    onCreate: `if (once('hung')) { context.log.info('hangs'); await new Promise(() => {}) }`,
  })
  await bench.line(/hangs/)
  await bench.clock.advance(30_000)
  const manager = bench.manage(t, await opening)
  assert.match(bench.errors()[0] ?? '', /could not be started: it was not ready within 30 s/)
  await bench.clock.advance(500)
  manager.add(GOOD)
  await bench.event(GOOD, 'issued')
})

test('a TypeError of create blames the configuration, and nothing is tried again', async t => {
  const bench = await setUp(t)
  const opening = bench.open(t, { onCreate: `throw new TypeError('Cannot use mode: it is odd. Leave it out.')` })
  await assert.rejects(opening, { name: 'TypeError', message: 'Cannot use mode: it is odd. Leave it out.' })
  assert.deepEqual([bench.errors(), bench.clock.deadlines()], [[], []])
})
test('a plugin that returns no client fails with that reason', async t => {
  const bench = await setUp(t)
  await bench.open(t, { onCreate: 'return {}' })
  assert.match(bench.errors()[0] ?? '', /could not be started: its create\(\) gave no client with issue/)
})
