/** The watch of a node's pods, at a server that does the work of the API server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PodApiServer, type PodResource, podResource } from '../../test/pod-api-server.ts'
import { type WatchedPods, watchPods } from '../../test/watched-pods.ts'

const HOUR_MS = 3_600_000

function fill(server: PodApiServer, count: number): PodResource[] {
  return Array.from({ length: count }, (_, index) => {
    const pod = podResource({ name: `pod-${String(index).padStart(3, '0')}` })
    server.put(pod)
    return pod
  })
}

function fail(server: PodApiServer, fault: PodApiServer['fault']): void {
  server.fault = fault
}

/** Waits until the watcher pauses, which it does for less than the 30 s that an answer has. */
function paused({ clock }: WatchedPods): Promise<void> {
  return clock.waitForDeadline(time => time < clock.now() + 30_000)
}

/** Waits until the watcher has taken what the server sent now: the silence that it bears begins anew. */
function heard({ clock }: WatchedPods): Promise<void> {
  return clock.waitForDeadline(time => time === clock.now() + 120_000)
}

async function nextAttempt(watched: WatchedPods): Promise<void> {
  await paused(watched)
  const { clock } = watched
  const [first = clock.now()] = clock.deadlines()
  await clock.advance(first - clock.now())
}

test('the pods of this node are listed in pages, then followed, wherever the events are cut', async t => {
  const watched = await watchPods(t, {
    prepare(server) {
      fill(server, 200)
      server.put(podResource({ name: 'elsewhere', node: 'node-2' }))
    },
  })
  const { server, until, names, pods } = watched
  await until(() => names().length === 200)
  assert.ok(server.calls.filter(({ verb }) => verb === 'list').length >= 4)
  assert.ok(!names().includes('elsewhere'))

  await server.called('watch')
  for (const pieceBytes of [1, 7, 1_000]) {
    server.pieceBytes = pieceBytes
    const pod = podResource({ name: `cut-${pieceBytes}` })
    server.put(pod)
    await until(() => names().includes(`cut-${pieceBytes}`))
    server.put({ ...pod, metadata: { ...pod.metadata, labels: {} } })
    await until(() => pods.get(pod.metadata.uid)?.identity === undefined)
    server.delete(pod)
    await until(() => !names().includes(`cut-${pieceBytes}`))
  }
  assert.equal(server.calls.filter(({ verb }) => verb === 'watch').length, 1)
  assert.equal(server.calls.find(({ verb }) => verb === 'watch')?.query.get('allowWatchBookmarks'), 'true')
})

test('a watch that the server ends continues where it was, by the version of the last bookmark, without a list', async t => {
  const watched = await watchPods(t, { prepare: server => void fill(server, 3) })
  const { server, clock, until, names } = watched
  await server.called('watch')
  await clock.advance(60_000)
  server.bookmark()
  await heard(watched)
  // Versions before the bookmark are gone, and it does not matter.
  server.compact()
  server.endWatches()
  await server.watched(0)
  server.put(podResource({ name: 'meanwhile' }))
  await nextAttempt(watched)
  await until(() => names().includes('meanwhile'))
  assert.equal(server.calls.filter(({ verb }) => verb === 'list').length, 1)
})

for (const [kind, answer] of [
  ['an event', undefined],
  ['a status', { status: 410, message: 'Expired' }],
] as const)
  test(`410 as ${kind} leads to a list, which removes the pods that are gone and keeps the others`, async t => {
    const watched = await watchPods(t, { prepare: server => void fill(server, 3) })
    const { server, until, names, states, pods } = watched
    await server.watched(1)
    const later = podResource({ name: 'later' })
    server.put(later)
    await until(() => names().includes('later'))
    const removed: string[] = []
    pods.changes.subscribe(({ kind: change, pod }) => void (change === 'removed' && removed.push(pod.name)))
    server.endWatches()
    await server.watched(0)
    server.delete(later)
    server.put(podResource({ name: 'new' }))
    server.compact()
    server.fault = ({ verb }) => (verb === 'watch' ? answer : undefined)
    await nextAttempt(watched)
    await server.called('watch', 2)
    server.fault = () => undefined
    await nextAttempt(watched)
    await until(() => names().includes('new'))
    assert.deepEqual(names(), ['new', 'pod-000', 'pod-001', 'pod-002'])
    assert.deepEqual([removed, server.calls.filter(({ verb }) => verb === 'list').length], [['later'], 2])
    assert.ok(states.every(({ kind: state }) => state === 'watching'))
  })

test('while the API server is away for an hour every pod stays, the state says so, and the attempts are few', async t => {
  const watched = await watchPods(t, { prepare: server => void fill(server, 5) })
  const { server, clock, watcher, until, names, states } = watched
  await server.called('watch')
  await until(() => names().length === 5)
  const before = clock.now()
  await server.down()
  const away = podResource({ name: 'came-meanwhile' })
  server.put(away)
  server.delete(podResource({ name: 'pod-000' }))
  while (clock.now() < before + HOUR_MS) await nextAttempt(watched)
  assert.equal(names().length, 5)
  const { state } = watcher
  assert.ok(state.kind === 'away')
  assert.match(state.error, /Cannot list the pods of this node at https:.*ECONNREFUSED/)
  // One state, not one per attempt.
  assert.equal(states.filter(({ kind }) => kind === 'away').length, 1)

  await paused(watched)
  await server.up()
  await nextAttempt(watched)
  await until(() => watcher.state.kind === 'watching')
  assert.deepEqual(names(), ['came-meanwhile', 'pod-001', 'pod-002', 'pod-003', 'pod-004'])
})

test('a list heals what a watch has lost after half an hour and a part of it, though the server never ends the watch', async t => {
  const watched = await watchPods(t, { prepare: server => void fill(server, 3) })
  const { server, clock, until, names, states } = watched
  await server.watched(1)
  server.losesEvents = true
  server.put(podResource({ name: 'lost' }))
  server.delete(podResource({ name: 'pod-000' }))
  server.losesEvents = false
  const lists = () => server.calls.filter(({ verb }) => verb === 'list').length
  // The list comes after 36 minutes: random adds 0.4 of the half by which it may be late.
  for (let bookmark = 1; bookmark <= 35; bookmark++) {
    await clock.advance(61_000)
    server.bookmark()
    await heard(watched)
  }
  assert.deepEqual([lists(), names()], [1, ['pod-000', 'pod-001', 'pod-002']])
  await clock.advance(60_000)
  await nextAttempt(watched)
  await until(() => names().includes('lost'))
  assert.deepEqual([lists(), names()], [2, ['lost', 'pod-001', 'pod-002']])
  assert.ok(states.every(({ kind }) => kind === 'watching'))
})

test('a connection that is silent for two minutes is given up for another one', async t => {
  const watched = await watchPods(t, { prepare: server => void fill(server, 1) })
  const { server, clock } = watched
  await server.called('watch')
  await server.watched(1)
  await clock.waitForDeadline(time => time > clock.now() + 100_000)
  await clock.advance(120_000)
  await nextAttempt(watched)
  await server.called('watch', 2)
})

test('a page that is too large is asked for in halves, down to one pod', async t => {
  const large = 'x'.repeat(250_000)
  const watched = await watchPods(t, {
    prepare(server) {
      for (let index = 0; index < 40; index++)
        server.put(podResource({ name: `large-${index}`, annotations: { large } }))
    },
  })
  await watched.until(() => watched.names().length === 40)
  const limits = watched.server.calls.map(({ query }) => query.get('limit'))
  assert.deepEqual(limits.slice(0, 4), ['64', '32', '16', '16'])
  for (const pod of watched.pods.all()) assert.equal(pod.annotations.size, 0)
})

test('what forbids or distorts the list is reported with the remedy, and tried again', async t => {
  const faults = [
    [{ status: 403, message: 'pods is forbidden' }, /HTTP 403: pods is forbidden\. Grant the verb list on pods/],
    [{ status: 401, message: 'Unauthorized' }, /HTTP 401: Unauthorized\. Renew the token/],
    [{ body: '[]' }, /not a list of pods/],
    [{ body: '{"items":{},"metadata":{"resourceVersion":"1"}}' }, /not a list of pods/],
    [{ body: '{"items":[],"metadata":{}}' }, /not a list of pods/],
    [{ body: '<html>' }, /cannot be read: it is not a JSON object/],
    [{ body: Buffer.alloc(5_000_000, 'x') }, /more than 4194304 bytes/],
    [{ status: 410, message: 'Expired' }, /the list changed too long ago/],
  ] as const
  const watched = await watchPods(t, { prepare: server => fail(server, () => faults[0][0]) })
  const { server, watcher, until } = watched
  for (const [fault, text] of faults) {
    server.fault = ({ verb }) => (verb === 'list' ? fault : undefined)
    if (fault !== faults[0][0]) await nextAttempt(watched)
    await paused(watched)
    assert.match(watcher.state.kind === 'unknown' ? `${watcher.state.error}` : '', text)
    assert.ok(!watched.pods.isListed)
  }
  server.fault = () => undefined
  await nextAttempt(watched)
  await until(() => watched.pods.isListed)
})

test('a list without an end, and one whose pages never end, are given up', async t => {
  let pages = 0
  const page = () => `{"items":[],"metadata":{"resourceVersion":"1","continue":"${++pages}"}}`
  const watched = await watchPods(t, { prepare: server => fail(server, () => ({ body: page() })) })
  await watched.until(() => watched.states.length > 0)
  assert.match(JSON.stringify(watched.watcher.state), /the list does not end/)
  assert.equal(pages, 1_024)
})

test('an answer that does not come is given up after 30 s', async t => {
  const watched = await watchPods(t, { prepare: server => fail(server, () => 'hang') })
  const { server, clock, watcher, until } = watched
  await server.called('list')
  await clock.waitForDeadline(time => time > clock.now())
  await clock.advance(30_000)
  await until(() => watcher.state.kind === 'unknown' && watcher.state.error !== undefined)
  assert.match(JSON.stringify(watcher.state), /no answer within 30000 ms/)
})

test('events that are not of pods, or not JSON, change nothing and lead to a list', async t => {
  const watched = await watchPods(t, { prepare: server => void fill(server, 2) })
  const { server, names } = watched
  let lists = 1
  for (const text of [
    '{"type":"ADDED","object":{"metadata":{"uid":"../../etc","name":"a","namespace":"b","resourceVersion":"999"}}}\n{}\n',
    '{"type":"DELETED","object":7}\n',
    '{"type":"ERROR","object":{"code":500}}\n',
    'not json\n',
    'null\n',
  ]) {
    await server.called('watch', lists)
    await server.watched(1)
    server.say(text)
    await server.watched(0)
    await nextAttempt(watched)
    await server.called('list', ++lists)
    assert.deepEqual(names(), ['pod-000', 'pod-001'])
  }
})
