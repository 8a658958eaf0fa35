/** When a stream reads, answers and pushes, over a transport that takes its messages one by one. */
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Events } from '@livery/core'
import { payloadOf } from '../../test/frame-payload.ts'
import { MemorySource } from '../../test/memory-source.ts'
import { peerNode } from '../../test/peer-node.ts'
import { API, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'
import { testBudget } from '../../test/test-budget.ts'
import { AccessPolicy } from '../access/policy.ts'
import { DeadlineQueue } from '../budget/deadline-queue.ts'
import { ClosingQueue, PacedClosing } from '../budget/paced-closing.ts'
import { StreamAllowance } from '../budget/stream-allowance.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import type { SdsEvent } from '../events/sds-event.ts'
import { DiscoveryRequest, DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { MessageComposer } from '../protocol/discovery-message.ts'
import { decodeDiscoveryRequest } from '../protocol/request-codec.ts'
import type { DiscoveryMessage } from '../protocol/response-content.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { sotwEncoder } from '../protocol/secret-encoding.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import type { StreamCallContext, StreamMethod } from './call-context.ts'
import type { Call } from './http2-call.ts'
import { StreamCall } from './stream-call.ts'
import { TurnQueue } from './turn-queue.ts'

const names = { default: 'default', root: 'ROOTCA', all: 'ALL' }

/** Takes one message, and the next one after `read`. */
class OneByOne implements Call {
  readonly sent: DiscoveryResponse[] = []
  readonly statuses: number[] = []
  readonly incoming = new Readable({ read() {} })
  #written: (() => void) | undefined

  start(): void {}

  header(): undefined {}

  get isPaused(): boolean {
    return this.incoming.isPaused()
  }

  /** The peer sends bytes. */
  arrive(data: Buffer): void {
    this.incoming.push(data)
  }

  sendFrame(frame: ResponseFrame, _: UnsentMemory, written: () => void): void {
    assert.equal(this.#written, undefined, 'a second message while one is on its way')
    this.sent.push(DiscoveryResponse.decode(payloadOf(frame)))
    frame.release(true)
    this.#written = written
  }

  sendStatus({ code }: { readonly code: number }): void {
    this.statuses.push(code)
  }

  onReceived(): void {}

  refuse(): void {}

  /** The peer reads what was sent. */
  read(): void {
    const written = this.#written
    this.#written = undefined
    written?.()
  }
}

async function openStream() {
  const source = await MemorySource.create(WEB, API)
  const { clock } = source
  const context: StreamCallContext = {
    source,
    clock,
    maxNames: 10,
    nacksPerMinute: 60,
    pushes: new TurnQueue(clock),
    nextId: () => 1,
    messages: new MessageComposer('n'),
    receipts: undefined,
    events: new Events(),
  }
  const permission = new AccessPolicy({ allow: [WEB, API] }, source, names).admit(undefined)
  assert.ok(permission)
  const connection = {
    info: { id: 1, socket: 's', caller: undefined },
    permission,
    budget: testBudget(),
    takesCalls: true,
    messageBytes: 0,
    takeOverhead: () => 0,
    closing: new PacedClosing(new Socket(), new ClosingQueue()),
    unsent: new UnsentMemory(new Socket(), testBudget()),
    allowance: new StreamAllowance(1_000),
    close() {},
    cut() {},
  }
  const transport = new OneByOne()
  const encoder = sotwEncoder()
  const method: StreamMethod<DiscoveryRequest, DiscoveryMessage> = {
    method: 'StreamSecrets',
    decode: decodeDiscoveryRequest,
    encoder,
    context,
    createStream: (each, subscriptions) => new SotwStream(each, subscriptions),
  }
  const deadlines = new DeadlineQueue(clock, 10_000)
  const host = { maxBytes: 65_536, deadlines, fault() {}, delete() {} }
  const stream = new StreamCall(transport, connection, method, host)
  stream.start()
  const receive = (responseNonce: string, ...resourceNames: string[]) =>
    transport.arrive(framed(responseNonce, resourceNames))
  return { source, context, stream, transport, receive }
}

function framed(responseNonce: string, resourceNames: string[]): Buffer {
  const node = peerNode('n')
  const request = { versionInfo: '', node, resourceNames, typeUrl: '', responseNonce, errorDetail: undefined }
  const message = DiscoveryRequest.encode(request).finish()
  const frame = Buffer.alloc(5 + message.length)
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, 5)
  return frame
}

test('one request is read at a time, and while a response is in flight up to the next that needs its own', async () => {
  const { transport, receive } = await openStream()
  const state = () => [transport.sent.length, transport.isPaused]
  receive('', WEB)
  assert.deepEqual(state(), [1, false])
  receive('', API)
  assert.deepEqual(state(), [1, false])
  receive('', WEB, API)
  assert.deepEqual(state(), [1, true])
  transport.read()
  assert.deepEqual(state(), [2, true])
  transport.read()
  assert.deepEqual(state(), [3, false])
  transport.read()
  assert.deepEqual(state(), [3, false])
})

test('an ACK is read while a push is on its way, and what it adds goes after that', async () => {
  const { source, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  transport.read()
  source.setBundle('cluster.local', { version: 'pushed' })
  await nextTurn()
  assert.equal(transport.sent.length, 2)
  receive(transport.sent[0]?.nonce ?? '', 'ROOTCA')
  receive(transport.sent[1]?.nonce ?? '', 'ROOTCA', WEB)
  assert.deepEqual([transport.sent.length, transport.isPaused], [2, false])
  transport.read()
  assert.deepEqual(transport.sent.slice(2).map(namesOf), [[WEB]])
})

test('a request that arrives while a push waits for its turn is answered at once, with the newest state, and the push is dropped', async () => {
  const { source, context, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  transport.read()
  source.setBundle('cluster.local', { version: 'newest' })
  assert.deepEqual([transport.sent.length, context.pushes.size], [1, 1])
  receive('', 'ROOTCA')
  assert.equal(transport.sent.at(1)?.versionInfo, 'newest')
  transport.read()
  await nextTurn()
  assert.deepEqual([transport.sent.length, context.pushes.size], [2, 0])
})

test('a request that meets a push in flight gets its own response after it', async () => {
  const { source, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  transport.read()
  source.setBundle('cluster.local', { version: 'pushed' })
  await nextTurn()
  receive('', WEB, API)
  assert.equal(transport.sent.length, 2)
  transport.read()
  assert.deepEqual(transport.sent.slice(1).map(namesOf), [['ROOTCA'], [API, WEB].sort()])
  transport.read()
  assert.deepEqual([transport.sent.length, transport.isPaused], [3, false])
})

test('while a message is on its way changes do not queue up: the newest goes when it has gone', async () => {
  const { source, context, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  for (const version of ['one', 'two', 'three']) source.setBundle('cluster.local', { version })
  assert.equal(context.pushes.size, 0)
  transport.read()
  assert.deepEqual([transport.sent.length, transport.sent.at(1)?.versionInfo], [2, 'three'])
})

test('a stream that ends while it waits for its turn leaves the queue, and nothing of it is left', async () => {
  const { source, context, stream, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  transport.read()
  source.setBundle('cluster.local', { version: 'newest' })
  stream.onHalfClose()
  assert.deepEqual([transport.statuses, context.pushes.size, source.subscribers], [[0], 0, 0])
  await nextTurn()
  assert.equal(transport.sent.length, 1)
})

test('requests that are there already are read in slices, however many', async () => {
  const { context, transport, receive } = await openStream()
  let stale = 0
  context.events.subscribe((event: SdsEvent) => {
    if (event.kind === 'stream-report' && event.report.kind === 'stale') stale++
  })
  receive('', WEB)
  transport.arrive(Buffer.concat(Array<Buffer>(20_000).fill(framed('stale', [WEB]))))
  assert.ok(stale > 0 && stale < 20_000, `${stale} in one turn`)
  while (stale < 20_000) await nextTurn()
  assert.equal(transport.sent.length, 1)
})
