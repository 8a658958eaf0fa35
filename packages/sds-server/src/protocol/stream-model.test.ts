/** The protocol of a stream without its transport, against a model of what the peer must have at any time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SecretItem, type SecretName, TrustBundleSecret } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { array, constantFrom, nat, oneof, property, record, subarray, assert as verify } from 'fast-check'
import { peerNode } from '../../test/peer-node.ts'
import { testBudget } from '../../test/test-budget.ts'
import { DeltaStream } from './delta-stream.ts'
import { MessageComposer } from './discovery-message.ts'
import type { StreamContext } from './discovery-protocol.ts'
import { type DiscoveryMessage, SECRET_TYPE_URL } from './response-content.ts'
import { ledgerName, type Resolution, type SecretSource, type SecretView } from './secret-source.ts'
import { SotwStream } from './sotw-stream.ts'
import { Subscriptions } from './subscriptions.ts'

const NAMES = ['a', 'b', 'c']
const FORBIDDEN = 'forbidden'

/** Secrets whose versions count up; it has no key to lose, so the items of bundles do. */
class ModelView implements SecretView, Pick<SecretSource, 'watch' | 'request' | 'current'> {
  readonly versions = new Map<string, string>()
  readonly #listeners = new Map<string, Set<() => void>>()
  #counter = 0

  resolve(name: string): Resolution {
    if (name === FORBIDDEN) return { kind: 'refused', reason: 'forbidden' }
    return { kind: 'granted', secret: { kind: 'bundle', trustDomain: name } }
  }

  everything(): readonly string[] {
    return NAMES
  }

  ownIdentities(): readonly SpiffeId[] {
    return []
  }

  mayHave(): boolean {
    return true
  }

  request(): void {}

  current(secret: SecretName): SecretItem | undefined {
    const trustDomain = ledgerName(secret).slice('spiffe://'.length)
    const version = this.versions.get(trustDomain)
    return version === undefined
      ? undefined
      : new TrustBundleSecret({ name: `spiffe://${trustDomain}`, version, trustedCa: Buffer.alloc(0) })
  }

  watch(secret: SecretName, listener: Parameters<SecretSource['watch']>[1]): Disposable {
    const name = ledgerName(secret).slice('spiffe://'.length)
    const call = () => listener(this.current(secret))
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(call))
    return { [Symbol.dispose]: () => void listeners.delete(call) }
  }

  change(name: string, isThere: boolean): void {
    if (isThere) this.versions.set(name, `v${++this.#counter}`)
    else this.versions.delete(name)
    for (const call of [...(this.#listeners.get(name) ?? [])]) call()
  }
}

/** The state of the peer after the messages that it read. */
class ModelPeer {
  readonly view = new ModelView()
  readonly secrets = new Map<string, string>()
  readonly sent: DiscoveryMessage[] = []
  readonly context: StreamContext

  constructor() {
    this.context = {
      shared: { source: this.view, maxNames: 10, messages: new MessageComposer('n'), clock: { now: () => 0 } },
      connection: { permission: this.view, budget: testBudget() },
      receipts: undefined,
      wake: () => {},
      record: { report: () => {} },
    }
  }

  read(message: DiscoveryMessage | undefined): boolean {
    if (!message) return false
    this.sent.push(message)
    for (const { name, item } of message.resources) this.secrets.set(name, item.version)
    for (const name of message.removed) this.secrets.delete(name)
    return true
  }
}

const names = subarray([...NAMES, FORBIDDEN], { minLength: 1 })
const steps = array(
  oneof(
    record({ kind: constantFrom('ask' as const), names }),
    record({ kind: constantFrom('ack' as const, 'nack' as const), names, back: nat(2) }),
    record({
      kind: constantFrom('change' as const),
      name: constantFrom(...NAMES),
      isThere: constantFrom(true, true, false),
    }),
    record({ kind: constantFrom('read' as const) }),
  ),
  { maxLength: 40 },
)

const sotwRequest = {
  versionInfo: '',
  node: peerNode('model'),
  typeUrl: SECRET_TYPE_URL,
  responseNonce: '',
  errorDetail: undefined,
}

test('SotW: after any sequence the peer that reads to the end has the newest of what it wants, and then there is quiet', async () => {
  await verify(
    property(steps, sequence => {
      const peer = new ModelPeer()
      using subscriptions = new Subscriptions(peer.context)
      const stream = new SotwStream(peer.context, subscriptions)
      let wanted = new Set<string>()
      const ask = (list: readonly string[], responseNonce: string, isNack = false) => {
        const errorDetail = isNack ? { code: 13, message: 'no' } : undefined
        stream.receive({ ...sotwRequest, resourceNames: [...list], responseNonce, errorDetail })
      }
      ask(['a'], '')
      wanted = new Set(['a'])
      for (const step of sequence) {
        if (step.kind === 'read') peer.read(stream.take())
        else if (step.kind === 'change') peer.view.change(step.name, step.isThere)
        else if (step.kind === 'ask') {
          ask(step.names, '')
          wanted = new Set(step.names)
        } else {
          const message = peer.sent.at(-1 - step.back)
          if (!message) continue
          const isCurrent = step.back === 0
          ask(step.names, message.nonce, step.kind === 'nack')
          if (isCurrent) wanted = new Set(step.names)
        }
        for (const message of peer.sent) {
          for (const { name } of message.resources) assert.notEqual(name, FORBIDDEN)
        }
      }
      // Whatever is pending is at most one message, however much has changed.
      peer.read(stream.take())
      assert.equal(stream.take(), undefined)
      for (const name of wanted) {
        const version = peer.view.versions.get(name)
        if (version !== undefined) assert.equal(peer.secrets.get(name), version)
      }
      // The ACK of the last message, with the same names, ends the exchange; so do late ones.
      for (const message of peer.sent.slice(-3)) ask([...wanted], message.nonce)
      assert.equal(stream.take(), undefined)
    }),
    { numRuns: 2_000 },
  )
})

const deltaRequest = {
  node: peerNode('model'),
  typeUrl: SECRET_TYPE_URL,
  resourceNamesSubscribe: [],
  resourceNamesUnsubscribe: [],
  initialResourceVersions: {},
  responseNonce: '',
  errorDetail: undefined,
}

/** The peer has the first version when the second one comes and goes between two messages. */
const GONE_TWICE_UNREAD = [
  { kind: 'change' as const, name: 'a', isThere: true },
  { kind: 'read' as const },
  { kind: 'change' as const, name: 'a', isThere: false },
  { kind: 'change' as const, name: 'a', isThere: true },
  { kind: 'change' as const, name: 'a', isThere: false },
]

test('Delta: after any sequence the peer has exactly what there is of what it wants, and then there is quiet', async () => {
  await verify(
    property(steps, sequence => {
      const peer = new ModelPeer()
      using subscriptions = new Subscriptions(peer.context)
      const stream = new DeltaStream(peer.context, subscriptions)
      const wanted = new Set<string>(['a'])
      stream.receive({ ...deltaRequest, resourceNamesSubscribe: ['a'] })
      for (const step of sequence) {
        if (step.kind === 'read') peer.read(stream.take())
        else if (step.kind === 'change') peer.view.change(step.name, step.isThere)
        else if (step.kind === 'ask') {
          const unsubscribe = [...wanted].filter(name => !step.names.includes(name))
          stream.receive({
            ...deltaRequest,
            resourceNamesSubscribe: [...step.names],
            resourceNamesUnsubscribe: unsubscribe,
          })
          wanted.clear()
          for (const name of step.names) wanted.add(name)
          // A peer forgets what it no longer wants.
          for (const name of unsubscribe) peer.secrets.delete(name)
        } else {
          const responseNonce = peer.sent.at(-1 - step.back)?.nonce ?? ''
          const errorDetail = step.kind === 'nack' ? { code: 13, message: 'no' } : undefined
          stream.receive({ ...deltaRequest, responseNonce, errorDetail })
        }
      }
      peer.read(stream.take())
      assert.equal(stream.take(), undefined)
      for (const name of wanted) assert.equal(peer.secrets.get(name), peer.view.versions.get(name), name)
      assert.ok(!peer.secrets.has(FORBIDDEN))
      for (const message of peer.sent.slice(-3)) stream.receive({ ...deltaRequest, responseNonce: message.nonce })
      assert.equal(stream.take(), undefined)
    }),
    { numRuns: 2_000, examples: [[GONE_TWICE_UNREAD]] },
  )
})
