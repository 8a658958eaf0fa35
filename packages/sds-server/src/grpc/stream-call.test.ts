/** When a stream reads, answers and pushes, over a transport that takes its messages one by one. */
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Events } from '@livery/core'
import { MemorySource } from '../../test/memory-source.ts'
import { peerNode } from '../../test/peer-node.ts'
import { API, WEB } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'
import { testBudget } from '../../test/test-budget.ts'
import { AccessPolicy } from '../access/policy.ts'
import { ClosingQueue, PacedClosing } from '../budget/paced-closing.ts'
import { StreamAllowance } from '../budget/stream-allowance.ts'
import { UnsentMemory } from '../budget/unsent-memory.ts'
import { DiscoveryRequest, DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { type DiscoveryMessage, MessageComposer } from '../protocol/discovery-message.ts'
import { decodeDiscoveryRequest } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { sotwEncoder } from '../protocol/secret-encoding.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import type { StreamCallContext } from './call-context.ts'
import { type AnsweredCall, type RequestSource, StreamCall, type StreamMethod } from './stream-call.ts'
import { TurnQueue } from './turn-queue.ts'

const names = { default: 'default', root: 'ROOTCA', all: 'ALL' }

/** Takes one message, and the next one after `read`. */
class OneByOne implements AnsweredCall, RequestSource {
  readonly sent: DiscoveryResponse[] = []
  readonly statuses: number[] = []
  reads = 0
  #written: (() => void) | undefined

  startRead(): void {
    this.reads++
  }

  sendFrame(frame: ResponseFrame, _: UnsentMemory, written: () => void): void {
    assert.equal(this.#written, undefined, 'a second message while one is on its way')
    this.sent.push(DiscoveryResponse.decode(frame.message))
    frame.release(true)
    this.#written = written
  }

  sendStatus({ code }: { readonly code: number }): void {
    this.statuses.push(code)
  }

  onReceived(): void {}

  onClosed(): void {}

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
    clock,
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
    answers: 0,
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
    requestName: 'discovery request',
    maxNames: 10,
    decode: decodeDiscoveryRequest,
    encodeMessage: message => encoder.encodeMessage(message),
    context,
    createStream: each => new SotwStream(each),
  }
  const stream = new StreamCall(transport, transport, connection, method, { report() {}, delete() {} })
  stream.onHeaders(() => undefined)
  const receive = (responseNonce: string, ...resourceNames: string[]) => {
    const node = peerNode('n')
    const request = { versionInfo: '', node, resourceNames, typeUrl: '', responseNonce, errorDetail: undefined }
    stream.onRequest(decodeDiscoveryRequest(Buffer.from(DiscoveryRequest.encode(request).finish())))
  }
  return { source, context, stream, transport, receive }
}

test('one request is read at a time, and while a response is in flight up to the next that needs its own', async () => {
  const { transport, receive } = await openStream()
  assert.equal(transport.reads, 1)
  receive('', WEB)
  assert.deepEqual([transport.sent.length, transport.reads], [1, 2])
  receive('', API)
  assert.deepEqual([transport.sent.length, transport.reads], [1, 2])
  transport.read()
  assert.deepEqual([transport.sent.length, transport.reads], [2, 3])
  transport.read()
  assert.deepEqual([transport.sent.length, transport.reads], [2, 3])
})

test('an ACK is read while a push is on its way, and what it adds goes after that', async () => {
  const { source, transport, receive } = await openStream()
  receive('', 'ROOTCA')
  transport.read()
  source.setBundle('cluster.local', { version: 'pushed' })
  await nextTurn()
  assert.deepEqual([transport.sent.length, transport.reads], [2, 2])
  receive(transport.sent[0]?.nonce ?? '', 'ROOTCA')
  receive(transport.sent[1]?.nonce ?? '', 'ROOTCA', WEB)
  assert.deepEqual([transport.sent.length, transport.reads], [2, 4])
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
  assert.deepEqual([transport.sent.length, transport.reads], [2, 2])
  transport.read()
  assert.deepEqual(transport.sent.slice(1).map(namesOf), [['ROOTCA'], [API, WEB].sort()])
  transport.read()
  assert.equal(transport.reads, 3)
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

test('requests that are there already are read in a loop, however many', async () => {
  const { transport, receive } = await openStream()
  receive('', WEB)
  let waiting = 100_000
  transport.startRead = () => {
    if (waiting-- > 0) receive('stale', WEB)
  }
  receive('stale', WEB)
  assert.ok(waiting < 0)
  assert.equal(transport.sent.length, 1)
})
