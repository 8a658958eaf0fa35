import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { SystemClock } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf } from '@livery/test-support'
import { API, createCitadel, isCAError, setUpCitadel, WEB } from '../../../test/citadel-setup.ts'
import { FaultyCaServer } from '../../testing/faulty-ca-server.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'

test('a connection that is reset in a call is unavailable, and the next call has a new one', async t => {
  const { client, server } = await setUpCitadel(t)
  await client.issue(await workloadRequest(WEB))
  server.behaviour = { kind: 'reset' }
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /it is asked again/))
  server.behaviour = { kind: 'sign' }
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 2)
})

test('a CA that is down is unavailable at once; when it is up again, so is the plugin, without a restart', async t => {
  const first = await FaultyCaServer.start()
  const { address, authority } = first
  const [host = '', port = ''] = address.split(':')
  const context = pluginContext({ clock: new SystemClock() })
  await using client = await createCitadel({ address, rootCert: authority.trustBundle().join('') }, context)
  await client.issue(await workloadRequest(WEB))
  await first[Symbol.asyncDispose]()
  for (let i = 0; i < 3; i++)
    await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /ECONNREFUSED/))
  const second = await FaultyCaServer.start({ authority, host, port: Number(port) })
  t.after(() => second[Symbol.asyncDispose]())
  await client.issue(await workloadRequest(WEB)).catch(() => {})
  await client.issue(await workloadRequest(WEB))
})

test('calls that fail twice in a row are followed by one on a new connection', async t => {
  const { client, server } = await setUpCitadel(t)
  server.behaviour = { kind: 'refuse', code: status.UNAVAILABLE }
  for (let i = 0; i < 2; i++) await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
  assert.equal(server.connections, 1)
  server.behaviour = { kind: 'sign' }
  await client.issue(await workloadRequest(WEB))
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.connections, 2)
})

test('refusals do not cause a new connection', async t => {
  const { client, server } = await setUpCitadel(t)
  for (const code of [status.UNAUTHENTICATED, status.PERMISSION_DENIED, status.RESOURCE_EXHAUSTED]) {
    server.behaviour = { kind: 'refuse', code }
    for (let i = 0; i < 3; i++) await assert.rejects(client.issue(await workloadRequest(WEB)))
  }
  assert.equal(server.connections, 1)
})

test('a call that hangs does not hold up others', async t => {
  const { client, server, clock } = await setUpCitadel(t)
  server.behaviour = { kind: 'hang' }
  const arrived = server.nextCall()
  const hanging = assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('timeout'))
  await arrived
  server.behaviour = { kind: 'sign' }
  await client.issue(await workloadRequest(API))
  await clock.advance(10_000)
  await hanging
})

test('an answer that comes after the deadline is dropped', async t => {
  const { client, server, clock } = await setUpCitadel(t)
  const { promise: until, resolve: answer } = Promise.withResolvers<void>()
  server.behaviour = { kind: 'sign', until }
  const arrived = server.nextCall()
  const late = assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('timeout'))
  await arrived
  await clock.advance(10_000)
  await late
  answer()
  server.behaviour = { kind: 'sign' }
  await client.issue(await workloadRequest(WEB))
})

test('a server that accepts and stays silent is a timeout', async t => {
  const sockets: Socket[] = []
  const silent = createServer(socket => sockets.push(socket))
  // The client has its connection by then, which the server can see sooner than the client.
  const accepted = new Promise(resolve => silent.once('connection', socket => socket.once('data', resolve)))
  await listening(silent)
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const address = `127.0.0.1:${portOf(silent)}`
  const clock = new FakeClock()
  await using client = await createCitadel({ address, rootCert: 'system' }, pluginContext({ clock }))
  const issuing = assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('timeout', /no answer within 10000 ms/),
  )
  await accepted
  await clock.advance(10_000)
  await issuing
})

test('a server without TLS is unavailable, and the remedy says so', async t => {
  const { client } = await setUpCitadel(t, { server: { plaintext: true } })
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /does not speak TLS/))
})

test('a name that cannot be resolved is unavailable with the address', async () => {
  const context = pluginContext({ clock: new SystemClock() })
  await using client = await createCitadel({ address: 'no-such-host.invalid:15012', rootCert: 'system' }, context)
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /no-such-host\.invalid:15012/),
  )
})
