/** Secrets followed at a server that does the work of the API server, on a clock that the test moves. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { PodApiServer, secretResource } from '../../test/pod-api-server.ts'
import { ClusterSecrets } from './cluster-secrets.ts'

const WEB = { namespace: 'edge', name: 'web' }
const FIELDS = ['cert', 'key'] as const

async function setUp(t: TestContext) {
  const server = await PodApiServer.start()
  const root = temporaryFolder(t)
  await server.mountAccount(root)
  Object.assign(process.env, server.environment)
  const clock = new FakeClock(Date.now())
  const lines: string[] = []
  const log = { warn: (line: string) => void lines.push(line), info: (line: string) => void lines.push(line) }
  const secrets = new ClusterSecrets(['edge', 'shop'], clock, log, root)
  t.after(async () => {
    await secrets[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })
  let changes = 0
  let react = () => {}
  const onChange = (next: () => void): void => {
    react = next
  }
  const followed = secrets.follow(WEB, () => {
    changes++
    react()
  })
  const read = async () => {
    const fields = await followed.read(FIELDS)
    return fields && Object.fromEntries(Array.from(fields, ([field, bytes]) => [field, bytes.toString()]))
  }
  /** Resolves when it was called once more. */
  const changed = async (count = changes + 1) => {
    while (changes < count) await clock.advance(100)
  }
  const calls = (verb: 'get' | 'list' | 'watch') => server.calls.filter(call => call.verb === verb).length
  const put = (fields: Readonly<Record<string, string>>) => server.put(secretResource('edge', 'web', fields))
  return { server, clock, lines, secrets, read, changed, onChange, calls, put }
}

test('a change is seen by metadata alone, and a Secret that is written in a loop is read once a second', async t => {
  const { server, clock, read, onChange, calls, put } = await setUp(t)
  put({ cert: 'c0', key: 'k0', 'tls.crt': '' })
  assert.deepEqual(await read(), { cert: 'c0', key: 'k0' })
  await server.watched(1)
  const sent: string[] = []
  server.onWrite = text => sent.push(text)
  let last: Readonly<Record<string, string>> | undefined
  // The clock does not run ahead of a read.
  let reading = Promise.resolve()
  onChange(() => {
    reading = read().then(fields => {
      last = fields
    })
  })
  const began = clock.now()
  for (let index = 1; index <= 300; index++) {
    put({ cert: `c${index}`, key: `k${index}` })
    await clock.advance(10)
    await reading
  }
  while (last?.['cert'] !== 'c300') {
    await clock.advance(100)
    await reading
  }
  assert.deepEqual(last, { cert: 'c300', key: 'k300' })
  const seconds = (clock.now() - began) / 1_000
  assert.ok(calls('get') <= 2 + seconds, `${calls('get')} reads in ${seconds} s`)
  assert.deepEqual([sent.length, sent.filter(text => text.includes('"data":')), calls('watch')], [300, [], 1])
  const watch = server.calls.find(({ verb }) => verb === 'watch')
  const { path, query } = watch ?? {}
  assert.deepEqual([path, query?.get('fieldSelector')], ['/api/v1/namespaces/edge/secrets', 'metadata.name=web'])
})

test('a Secret is gone if the API server says so, and not if something on the way answers 404', async t => {
  const { server, clock, read, changed, put } = await setUp(t)
  put({ cert: 'c', key: 'k' })
  await read()
  await server.watched(1)
  await clock.advance(1_000)
  const isSeen = changed()
  server.delete(secretResource('edge', 'web', {}))
  await isSeen
  server.fault = ({ verb }) => (verb === 'get' ? { status: 404, message: 'no such page', reason: 'other' } : undefined)
  const failed = clock.now()
  await assert.rejects(read(), /Cannot get the Secret edge\/web: the answer is 404, not from an API server/)
  server.fault = () => undefined
  await changed()
  assert.ok(clock.now() - failed >= 8_000)
  assert.equal(await read(), undefined)
})

test('a Secret is read again when the API server says, and a clock that is set back delays no change', async t => {
  const { server, clock, read, changed, put } = await setUp(t)
  put({ cert: 'c', key: 'k' })
  server.fault = ({ verb }) => (verb === 'get' ? { status: 429, message: 'busy', retryAfter: '60' } : undefined)
  const failed = clock.now()
  await assert.rejects(read(), /HTTP 429/)
  await changed()
  assert.ok(clock.now() - failed >= 60_000, `${clock.now() - failed} ms`)
  server.fault = () => undefined
  await read()
  await server.watched(1)
  clock.jump(-3_600_000)
  const set = clock.now()
  const isSeen = changed()
  put({ cert: 'c1', key: 'k1' })
  await isSeen
  assert.ok(clock.now() - set < 60_000, `${clock.now() - set} ms`)
})

test('a right that is missing is named, once for all Secrets, and what was lost meanwhile is seen', async t => {
  const { server, clock, secrets, lines, read, changed, put } = await setUp(t)
  await server.watched(1)
  await read()
  await clock.advance(1_000)
  server.fault = ({ verb }) => (verb === 'list' || verb === 'watch' ? { status: 403, message: 'forbidden' } : undefined)
  using _other = secrets.follow({ namespace: 'shop', name: 'api' }, () => {})
  server.endWatches()
  while (lines.length === 0) await new Promise(setImmediate)
  assert.match(
    lines.join(),
    /^a change of a Secret is not seen at present: Cannot (list|watch) the Secret \S+ at \S+: HTTP 403: forbidden\. Grant the verb (list|watch) on secrets to this user by a Role of that namespace\.$/,
  )
  const lists = () => server.calls.filter(({ verb, path }) => verb === 'list' && path.includes('/edge/')).length
  while (lists() < 3) await clock.advance(100)
  assert.equal(lines.length, 1)
  put({ cert: 'c', key: 'k' })
  const isSeen = changed()
  server.fault = () => undefined
  while (lines.length === 1) await clock.advance(100)
  assert.deepEqual(lines.slice(1), ['all Secrets are watched'])
  await isSeen
  assert.deepEqual(await read(), { cert: 'c', key: 'k' })
})

test('only Secrets of the configured namespaces are followed, and there is room for 256', async t => {
  const { secrets } = await setUp(t)
  const other = { namespace: 'kube-system', name: 'web' }
  assert.match(
    secrets.refusal(other) ?? '',
    /^is in the namespace kube-system, which kubernetesSecrets\.namespaces does/,
  )
  assert.throws(() => secrets.follow(other, () => {}), /Cannot follow the Secret kube-system\/web/)
  assert.equal(secrets.room, 255)
  const more = secrets.follow({ namespace: 'shop', name: 'api' }, () => {})
  assert.equal(secrets.room, 254)
  more[Symbol.dispose]()
  assert.equal(secrets.room, 255)
})
