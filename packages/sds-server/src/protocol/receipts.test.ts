/** The reports of live streams to core, over a real socket. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Receipts, TrustBundleSecret } from '@livery/core'
import { MemorySource } from '../../test/memory-source.ts'
import { startServer, WEB } from '../../test/running-server.ts'

interface StreamState {
  readonly sent: string
  readonly accepted?: string
  readonly rejected?: string
}

/** Knows of each live stream which version of the bundle it has. */
class LiveStreams implements Receipts {
  readonly #streams = new Map<object, { readonly client: () => string; state?: StreamState }>()

  open(client: () => string) {
    const stream: { readonly client: () => string; state?: StreamState } = { client }
    this.#streams.set(stream, stream)
    const update = (change: Partial<StreamState>, { version }: TrustBundleSecret) => {
      stream.state = { sent: version, ...stream.state, ...change }
    }
    return {
      sent: (bundle: TrustBundleSecret) => update({ sent: bundle.version }, bundle),
      accepted: (bundle: TrustBundleSecret) => update({ accepted: bundle.version }, bundle),
      rejected: (bundle: TrustBundleSecret, reason: string) =>
        update({ rejected: `${bundle.version}: ${reason}` }, bundle),
      [Symbol.dispose]: () => void this.#streams.delete(stream),
    }
  }

  get states(): readonly (StreamState | undefined)[] {
    return [...this.#streams.values()].map(({ state }) => state)
  }

  get clients(): readonly string[] {
    return [...this.#streams.values()].map(({ client }) => client())
  }
}

async function start() {
  const receipts = new LiveStreams()
  const source = Object.assign(await MemorySource.create(WEB), { receipts })
  source.setBundle('cluster.local', { version: 'v1' })
  return { receipts, running: await startServer({}, { source }) }
}

test('state of the world: core hears what a live stream was sent, accepted and rejected, until it is closed', async () => {
  const { receipts, running } = await start()
  await using _running = running
  const client = running.connect()
  const stream = client.sotw()
  stream.ask('ROOTCA')
  const first = await stream.next()
  assert.deepEqual(receipts.states, [{ sent: 'v1' }])
  assert.match(receipts.clients[0] ?? '', /^node "test-node" on /)
  stream.ack(first, 'ROOTCA')
  await client.settled()
  running.source.setBundle('cluster.local', { version: 'v2' })
  const second = await stream.next()
  assert.deepEqual(receipts.states, [{ sent: 'v2', accepted: 'v1' }])
  stream.nack(second, 'no such curve', 'ROOTCA')
  await client.settled()
  assert.deepEqual(receipts.states, [{ sent: 'v2', accepted: 'v1', rejected: 'v2: no such curve' }])
  stream.end()
  await running.event('stream-closed')
  assert.deepEqual(receipts.states, [])
})

test('Delta: core hears of the bundle of each live stream, and nothing of certificates', async () => {
  const { receipts, running } = await start()
  await using _running = running
  const client = running.connect()
  const certificate = client.delta()
  certificate.subscribe(WEB)
  certificate.ack(await certificate.next())
  const both = client.delta()
  both.subscribe(WEB, 'ROOTCA')
  both.ack(await both.next())
  await client.settled()
  assert.deepEqual(receipts.states, [undefined, { sent: 'v1', accepted: 'v1' }])
  for (const stream of [certificate, both]) stream.cancel()
  client[Symbol.dispose]()
  await running.event('connection-closed')
  assert.deepEqual(receipts.states, [])
})

test('a call of FetchSecrets is not a live stream', async () => {
  const { receipts, running } = await start()
  await using _running = running
  await running.connect().fetch({ resourceNames: ['ROOTCA'] })
  assert.deepEqual(receipts.states, [])
})
