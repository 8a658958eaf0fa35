/** `livery streams` and `/streams` of a running agent, with real streams. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readPeerCredentials } from '@livery/native-keygen'
import { temporaryFolder } from '@livery/test-support'
import type { StreamList } from '../src/admin/stream-list.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const OTHER = 'spiffe://cluster.local/ns/other/sa/db'
const CONFIG = `ca: { plugin: embedded }
admin: { address: "127.0.0.1:0" }
drain: 100ms
identities: [{ id: ${WEB}, socket: web.sock }]
sockets: [{ path: sds.sock, allow: ["${WEB}"] }]
`
/** It clears the screen of a terminal, and turns the direction of writing. */
const HOSTILE = 'evil\u001b[2J\u202e"node'

test('each stream has its caller, node, names and versions; nothing of a peer reaches a terminal as it came', {
  skip: readPeerCredentials ? false : 'no addon to identify callers with',
}, async t => {
  const cwd = temporaryFolder(t)
  await writeFile(join(cwd, 'livery.yaml'), CONFIG)
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  const [own, shared] = [join(cwd, 'web.sock'), join(cwd, 'sds.sock')]
  await fetchSecrets(own, ['default'])
  using _own = await openStream(own, ['default', 'ROOTCA'])
  using _shared = await openStream(shared, [WEB, OTHER], { node: HOSTILE })

  const json = await livery(['streams', '--json', '--admin', admin], { cwd })
  assert.deepEqual([json.code, json.stderr], [0, ''])
  const list: StreamList = JSON.parse(json.stdout)
  assert.deepEqual(
    list.sockets.map(({ path, state, connections, streams, names }) => [path, state, connections, streams, names]),
    [
      [shared, 'listening', 1, 1, 2],
      [own, 'listening', 1, 1, 2],
    ],
  )
  const [first, second] = list.streams
  assert.deepEqual([first?.socket, first?.pid, first?.uid], [shared, process.pid, process.getuid?.()])
  assert.deepEqual(
    first?.subscriptions.map(({ name, access }) => [name, access]),
    [
      [WEB, 'granted'],
      [OTHER, 'refused'],
    ],
  )
  assert.deepEqual([second?.socket, second?.node], [own, 'test-node'])
  const [certificate] = second?.subscriptions ?? []
  assert.deepEqual([certificate?.name, certificate?.secret], ['default', WEB])
  assert.match(certificate?.sent ?? '', /^[0-9a-f]{64}$/)
  assert.equal(certificate?.sent, certificate?.current)
  assert.deepEqual(
    list.callers.map(({ caller, connections, streams, names }) => [caller, connections, streams, names]),
    [[`uid ${process.getuid?.()}`, 2, 2, 4]],
  )

  const { stdout } = await livery(['streams', '--admin', admin], { cwd })
  assert.doesNotMatch(stdout, /[^\n\x20-\x7e]/)
  assert.match(
    stdout,
    /^ {2}node "evil\\u\{1b\}\[2J\\u\{202e\}\\u\{22\}node", pid \d+, uid \d+: StreamSecrets for \d+m?s$/m,
  )
  assert.match(stdout, /^ {4}refused +spiffe:\/\/cluster\.local\/ns\/other\/sa\/db$/m)
  assert.match(stdout, new RegExp(`^ {4}sent ${certificate?.sent?.slice(0, 12)} +default \\(${WEB}\\)$`, 'm'))
  assert.match(stdout, /^callers\n {2}uid \d+: 2 connections, 2 streams, 4 names, \d+ KiB$/m)

  const named = await livery(['streams', '--json', '--admin', admin, WEB], { cwd })
  const { streams }: StreamList = JSON.parse(named.stdout)
  assert.deepEqual(
    streams.map(({ subscriptions }) => subscriptions.map(({ name }) => name)),
    [[WEB], ['default']],
  )

  const none = await livery(['streams', '--admin', admin, WEB.replace('web', 'wbe')], { cwd })
  assert.equal(none.code, 0)
  assert.match(
    none.stderr,
    new RegExp(`^livery: no stream has ".*wbe"\\. This agent does not know .* Did you mean ${WEB}\\?`),
  )
})
