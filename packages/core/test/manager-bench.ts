/** The bench for tests of the SecretManager. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { CertificateVerifier } from '../src/contract/certificate-verifier.ts'
import { Events } from '../src/contract/events.ts'
import type { SecretEvent, SecretReport } from '../src/contract/secret-event.ts'
import { SecretManager } from '../src/secret-manager.ts'
import type { SecretManagerOptions } from '../src/secret-manager-options.ts'
import { CertificateSecret } from '../src/secrets/certificate-secret.ts'
import type { SpiffeId } from '../src/spiffe/spiffe-id.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { TestCA } from '../src/testing/test-ca.ts'
import { TestKeyGenerator } from '../src/testing/test-key-generator.ts'

const never = new AbortController().signal

/** The state that outlives a process. */
export interface World {
  readonly clock: FakeClock
  readonly ca: TestCA
}

/** A manager over a CA that signs, on a clock that the test advances; its events can be waited for. */
export class Bench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly keys = new TestKeyGenerator()
  readonly events: { name: string; event: SecretEvent }[] = []
  readonly ca: TestCA
  readonly manager: SecretManager
  #wake = Promise.withResolvers<void>()

  private constructor(ca: TestCA, clock: FakeClock, options: Partial<SecretManagerOptions>) {
    this.ca = ca
    this.clock = clock
    const { events = new Events<SecretReport>() } = options
    events.subscribe(({ name, event }) => {
      this.events.push({ name, event })
      this.#wake.resolve()
      this.#wake = Promise.withResolvers()
    })
    this.manager = new SecretManager({
      ca,
      clock,
      keyGenerator: this.keys,
      trustDomain: 'cluster.local',
      random: () => 0.5,
      ...options,
      events,
    })
  }

  static async create(
    options: Partial<SecretManagerOptions> = {},
    prepare: (ca: TestCA) => void = () => {},
    world?: World,
  ): Promise<Bench> {
    const clock = world?.clock ?? new FakeClock()
    const ca = world?.ca ?? (await TestCA.create(clock))
    prepare(ca)
    return new Bench(ca, clock, options)
  }

  async add(identity: SpiffeId): Promise<CertificateSecret> {
    this.manager.add(identity)
    const item = await this.manager.get({ kind: 'identity', identity }, { signal: never })
    assert.ok(item instanceof CertificateSecret)
    return item
  }

  /** Asks for the identity as a stream does that ends at once. */
  request(identity: SpiffeId): void {
    using _watch = this.manager.watch({ kind: 'identity', identity }, () => {})
    this.manager.request(identity)
  }

  served(identity: SpiffeId): CertificateSecret | undefined {
    const item = this.manager.current({ kind: 'identity', identity })
    assert.ok(item === undefined || item instanceof CertificateSecret)
    return item
  }

  count(kind: SecretEvent['kind']): number {
    return this.events.filter(({ event }) => event.kind === kind).length
  }

  last<K extends SecretEvent['kind']>(kind: K): Extract<SecretEvent, { kind: K }> {
    const found = this.events.findLast(({ event }) => event.kind === kind)?.event
    assert.ok(found, `no ${kind} happened`)
    return found as Extract<SecretEvent, { kind: K }>
  }

  /** Resolves once `kind` has happened `count` times in all. */
  async until(kind: SecretEvent['kind'], count: number): Promise<void> {
    while (this.count(kind) < count) await this.#wake.promise
  }

  /** Moves on to what is due next for the identity. */
  async toNextDue(identity: SpiffeId): Promise<void> {
    const due = this.manager.entries().find(entry => entry.identity === identity)?.renewAt
    assert.ok(due !== undefined, `nothing is planned for ${identity}`)
    await this.clock.advance(due - this.clock.now())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.manager[Symbol.asyncDispose]()
    assert.deepEqual(this.clock.deadlines(), [], 'a deadline is left after closing')
  }
}

/** Has the CA answer at once, without a signature: thousands of identities in a test, for a manager that is a `believer`. */
export function answerInstantly(ca: TestCA): void {
  ca.answer = async ({ identity }) => ({
    chain: [identity],
    roots: ca.roots,
    privateKey: Buffer.from(`key of ${identity}`),
  })
}

/** Believes whatever the CA answers: it is valid for `ttlMs`, under the first root. */
export function believer(ttlMs = 86_400_000): CertificateVerifier {
  let serial = 0
  return {
    verify(_, { anchors: [root], now }) {
      assert.ok(root)
      const serialNumber = (++serial).toString(16)
      return {
        chainPem: `certificate ${serialNumber}`,
        version: serialNumber,
        rootFingerprint: createHash('sha256').update(root.raw).digest('hex'),
        serialNumber,
        notBefore: now,
        notAfter: now + ttlMs,
      }
    },
  }
}
