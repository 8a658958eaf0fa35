/** Bytes of a peer through the decoder into a stream of either form: refused or answered, then quiet, never a foreign secret. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { AccessPolicy } from '../../src/access/policy.ts'
import { DeltaDiscoveryRequest, DiscoveryRequest } from '../../src/gen/envoy/service/discovery/v3/discovery.ts'
import { DeltaStream } from '../../src/protocol/delta-stream.ts'
import { MessageComposer } from '../../src/protocol/discovery-message.ts'
import type { DiscoveryStream, StreamContext } from '../../src/protocol/discovery-protocol.ts'
import { decodeDeltaRequest, decodeDiscoveryRequest } from '../../src/protocol/request-codec.ts'
import { type DiscoveryMessage, SECRET_TYPE_URL } from '../../src/protocol/response-content.ts'
import { SotwStream } from '../../src/protocol/sotw-stream.ts'
import { StreamRefusal } from '../../src/protocol/stream-refusal.ts'
import { Subscriptions } from '../../src/protocol/subscriptions.ts'
import { MemorySource } from '../memory-source.ts'
import { peerNode } from '../peer-node.ts'
import { testBudget } from '../test-budget.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const MAX_NAMES = 20

const source = await MemorySource.create(WEB, API)
const access = new AccessPolicy({ allow: [WEB] }, source, { default: 'default', root: 'ROOTCA', all: 'ALL' })
const view = access.admit(undefined)

const name = fc.oneof(
  fc.constantFrom('default', 'ROOTCA', WEB, API, 'spiffe://cluster.local', 'spiffe://other', '*', '', 'file-cert:a~b'),
  fc.string({ maxLength: 30 }),
)
const names = fc.array(name, { maxLength: 25 })
/** Nonces, among them the last answer's, the one before, and one that was never given. */
const nonce = fc.constantFrom('', '$last', '$before', 'n999', '\u0000')
const message = fc.record({
  names,
  unsubscribe: names,
  held: fc.dictionary(name, fc.string({ maxLength: 8 }), { maxKeys: 4 }),
  nonce,
  typeUrl: fc.constantFrom(SECRET_TYPE_URL, SECRET_TYPE_URL, SECRET_TYPE_URL, '', 'x'),
  node: fc.constantFrom(undefined, '', 'n', 'n\u001b[31m').map(id => (id === undefined ? null : id)),
  error: fc.option(fc.string({ maxLength: 60 }), { freq: 4 }),
  damage: fc.option(
    fc.array(fc.record({ at: fc.nat(2_000), bytes: fc.uint8Array({ maxLength: 6 }) }), { minLength: 1, maxLength: 3 }),
    { freq: 3 },
  ),
  raw: fc.option(fc.uint8Array({ maxLength: 200 }), { freq: 12 }),
})

export const inputs = fc.record({ isDelta: fc.boolean(), messages: fc.array(message, { maxLength: 8 }) })

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never
type Message = Input['messages'][number]

export function run({ isDelta, messages }: Input): void {
  assert.ok(view)
  const before = source.subscribers
  const composer = new MessageComposer('n')
  const budget = testBudget()
  const context: StreamContext = {
    shared: { source, maxNames: MAX_NAMES, messages: composer, clock: { now: () => 0 } },
    connection: { permission: view, budget },
    receipts: undefined,
    wake() {},
    record: { report: checkReport },
  }
  using subscriptions = new Subscriptions(context)
  const peer = isDelta
    ? new DeltaPeer(new DeltaStream(context, subscriptions), subscriptions)
    : new SotwPeer(new SotwStream(context, subscriptions), subscriptions)
  for (const each of messages) if (!peer.says(each)) break
  subscriptions[Symbol.dispose]()
  assert.equal(source.subscribers, before, 'a stream that has ended is subscribed to nothing')
  assert.deepEqual([budget.account.names, budget.account.bytes], [0, 0], 'a stream that has ended is charged nothing')
}

function checkReport(report: object): void {
  assert.ok(JSON.stringify(report).length < 6_000)
  for (const value of Object.values(report)) assert.doesNotMatch(String(value), /[^\x20-\x7e]/)
}

/** Sends the requests of a test, and records the responses. */
abstract class Peer<Request> {
  readonly #stream: DiscoveryStream<Request>
  readonly #subscriptions: Subscriptions
  readonly #nonces: string[] = []

  constructor(stream: DiscoveryStream<Request>, subscriptions: Subscriptions) {
    this.#stream = stream
    this.#subscriptions = subscriptions
  }

  abstract decode(bytes: Buffer): Request
  abstract encode(message: Message, nonce: string): Uint8Array

  /** `false` once the stream is refused. */
  says(said: Message): boolean {
    try {
      this.#stream.receive(this.decode(damaged(said, this.encode(said, this.#nonceOf(said.nonce)))))
    } catch (error) {
      assert.ok(error instanceof StreamRefusal, error instanceof Error ? error.stack : String(error))
      return false
    }
    assert.ok(this.#subscriptions.size <= MAX_NAMES, `${this.#subscriptions.size} names`)
    const answer = this.#stream.take()
    if (answer) this.#check(answer)
    assert.equal(this.#stream.take(), undefined, 'one answer, then quiet')
    return true
  }

  #check(answer: DiscoveryMessage): void {
    this.#nonces.push(answer.nonce)
    for (const { item } of answer.resources) if (item.kind !== 'bundle') assert.equal(item.name, WEB)
  }

  #nonceOf(nonce: string): string {
    if (nonce === '$last') return this.#nonces.at(-1) ?? ''
    return nonce === '$before' ? (this.#nonces.at(-2) ?? '') : nonce
  }
}

class SotwPeer extends Peer<DiscoveryRequest> {
  decode = decodeDiscoveryRequest

  encode(said: Message, responseNonce: string): Uint8Array {
    return DiscoveryRequest.encode({
      versionInfo: '',
      resourceNames: said.names,
      ...common(said, responseNonce),
    }).finish()
  }
}

class DeltaPeer extends Peer<DeltaDiscoveryRequest> {
  decode = decodeDeltaRequest

  encode(said: Message, responseNonce: string): Uint8Array {
    return DeltaDiscoveryRequest.encode({
      resourceNamesSubscribe: said.names,
      resourceNamesUnsubscribe: said.unsubscribe,
      initialResourceVersions: said.held,
      ...common(said, responseNonce),
    }).finish()
  }
}

function common({ typeUrl, node, error }: Message, responseNonce: string) {
  return {
    typeUrl,
    responseNonce,
    node: node === null ? undefined : peerNode(node),
    errorDetail: error === null ? undefined : { code: 13, message: error },
  }
}

function damaged({ damage, raw }: Message, bytes: Uint8Array): Buffer {
  if (raw) return Buffer.from(raw)
  return (damage ?? []).reduce((current, { at, bytes: put }) => {
    const position = at % (current.length + 1)
    return Buffer.concat([current.subarray(0, position), put, current.subarray(position + (at % 3))])
  }, Buffer.from(bytes))
}
