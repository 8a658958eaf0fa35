/** The server with the addon under it: an Envoy of every pod of the node connects at once. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { Events } from '@livery/core'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { acceptWaiting } from '@livery/native-keygen'
import { createSdsServer, type SdsEvent, type SecretSource } from '@livery/sds-server'
import { temporaryFolder } from '@livery/test-support'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'

/** Nobody asks it for anything here. */
const SOURCE: SecretSource = {
  trustDomain: 'cluster.local',
  knows: () => false,
  identities: () => [],
  trustDomains: () => [],
  current: () => undefined,
  request() {},
  watch: () => ({ [Symbol.dispose]() {} }),
}

test('connections that wait together take a few turns of the event loop, and each is served', {
  skip: acceptWaiting ? false : 'no addon to accept them with',
}, async t => {
  const CLIENTS = 300
  const path = join(temporaryFolder(t), 'sds.sock')
  let opened = 0
  let turns = 0
  const events = new Events<SdsEvent>()
  events.subscribe(event => {
    if (event.kind === 'connection-opened') opened++
  })
  await using _server = await createSdsServer({
    sockets: [{ path, identity: WEB }],
    source: SOURCE,
    clock: new SystemClock(),
    acceptWaiting,
    drainMs: 0,
    events,
  })
  // A UNIX socket is connected once it waits to be accepted, so all of them wait before the loop turns again.
  const clients = Array.from({ length: CLIENTS }, () => connect(path))
  const greetings = clients.map(client => once(client, 'data'))
  while (opened < CLIENTS) {
    turns++
    await new Promise(resolve => setImmediate(resolve))
  }
  assert.ok(turns < 30, `${CLIENTS} connections took ${turns} turns`)
  // The server's SETTINGS (RFC 9113, section 3.4).
  for (const [bytes] of await Promise.all(greetings)) assert.equal(bytes[3], 4)
  for (const client of clients) client.destroy()
})

test('a connection does not wait for the thousands of another caller that came before it', {
  skip: acceptWaiting ? false : 'no addon to accept them with',
}, async t => {
  const CLIENTS = 2_000
  const [many, one] = [61_001, 61_002]
  const path = join(temporaryFolder(t), 'sds.sock')
  const opened: (number | undefined)[] = []
  const events = new Events<SdsEvent>()
  events.subscribe(event => {
    if (event.kind === 'connection-opened') opened.push(event.connection.caller?.uid)
  })
  let accepted = 0
  await using _server = await createSdsServer({
    sockets: [{ path, identity: WEB }],
    source: SOURCE,
    clock: new SystemClock(),
    acceptWaiting,
    // They are accepted in the order in which they came.
    readPeerCredentials: () => ({ pid: 1, gid: 0, uid: ++accepted > CLIENTS ? one : many }),
    drainMs: 0,
    events,
  })
  const clients = Array.from({ length: CLIENTS + 1 }, () => connect(path))
  while (!opened.includes(one)) await new Promise(resolve => setImmediate(resolve))
  assert.ok(opened.length < CLIENTS / 2, `it was the connection number ${opened.length} that was opened`)
  while (opened.length <= CLIENTS) await new Promise(resolve => setImmediate(resolve))
  for (const client of clients) client.destroy()
})

const NO_DESCRIPTORS = `
  import { Events } from '@livery/core'
  import { SystemClock } from '@livery/core/plugin'
  import { acceptWaiting } from '@livery/native-keygen'
  import { createSdsServer } from '@livery/sds-server'
  const source = { trustDomain: 'cluster.local', knows: () => false, identities: () => [],
        trustDomains: () => [], add() {}, current() {}, record() {} }
  const events = new Events()
  events.subscribe(({ kind, error }) => {
    if (kind === 'accept-failed') console.log(error.code + ': ' + error.message)
  })
  await createSdsServer({
    sockets: [{ path: process.argv[1], identity: 'spiffe://cluster.local/ns/default/sa/web' }],
    source,
    clock: new SystemClock(),
    acceptWaiting,
    events,
  })
  console.log('ready')`

test('a server that runs out of file descriptors says so, once for a storm', {
  skip: acceptWaiting ? false : 'no addon to accept them with',
}, async context => {
  const path = join(temporaryFolder(context), 'sds.sock')
  const node = [process.execPath, '--conditions=@livery/source', '--input-type=module', '-e', NO_DESCRIPTORS, path]
  const server = spawn('sh', ['-c', 'ulimit -n 120; exec "$@"', 'sh', ...node], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  context.after(() => server.kill())
  const lines = createInterface(server.stdout)[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, 'ready')
  const clients = Array.from({ length: 300 }, () => connect(path).on('error', () => {}))
  const answers = clients.map(
    client => new Promise<void>(resolve => client.once('data', () => resolve()).once('close', () => resolve())),
  )
  assert.match(String((await lines.next()).value), /^EMFILE: Cannot accept connections on .*sds\.sock: .*LimitNOFILE=/)
  await Promise.all(answers)
  for (const client of clients) client.destroy()
  server.kill()
  assert.equal((await lines.next()).done, true)
})
