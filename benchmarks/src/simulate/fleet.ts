/** N nodes × M identities: a real SecretManager for each node, on the virtual clock and against the modelled CA. */
import { type SecretItem, SecretManager, type SecretReport, type SpiffeId } from '@livery/core'
import type { ModelCA } from './model-ca.ts'
import { placeholderKeyGenerator, placeholderVerifier } from './placeholder-crypto.ts'
import { seededRandom } from './seeded-random.ts'
import { ServiceRecord } from './service-record.ts'
import type { VirtualTime } from './virtual-time.ts'

interface FleetOptions {
  readonly time: VirtualTime
  readonly ca: ModelCA
  readonly nodes: number
  /** Of each node. */
  readonly identities: number
  readonly ttlSeconds: number
  /** How long a new root settles, milliseconds; `undefined`: core's default. */
  readonly settleMs?: number | undefined
  /** `own`: every identity is on one node only. `shared`: all nodes have the same ones, as with DaemonSets. */
  readonly names: 'own' | 'shared'
  /** The nodes start within so long, milliseconds. */
  readonly bootWithinMs: number
  /** Clocks are up to so far ahead or behind, milliseconds. */
  readonly skewMs: number
  readonly seed: number
}

const TRUST_DOMAIN = 'cluster.local'

export class Fleet implements AsyncDisposable {
  readonly service: ServiceRecord
  readonly identities: number
  /** When the last identity that had an error got its certificate; the start, if none had. */
  allWellSince: number
  /** Identities whose last call failed. */
  failing = 0
  /** Called with each certificate that comes into use. */
  onServed: (identity: number, certificate: SecretItem & { readonly kind: 'certificate' }) => void = () => {}
  /** Called when a node takes in new roots. */
  onRoots: (node: number) => void = () => {}
  readonly #options: FleetOptions
  readonly #managers: SecretManager[] = []
  readonly #isFailing: Uint8Array

  constructor(options: FleetOptions) {
    const { time, nodes, identities, bootWithinMs, seed } = options
    this.#options = options
    this.identities = nodes * identities
    this.service = new ServiceRecord(this.identities, time.start)
    this.allWellSince = time.start
    this.#isFailing = new Uint8Array(this.identities)
    const random = seededRandom(seed)
    for (let node = 0; node < nodes; node++) {
      const skew = options.skewMs * (2 * random() - 1)
      time.at(time.start + bootWithinMs * random(), () => this.#boot(node, skew))
    }
  }

  /** Ends every node. Calls that are under way fail, so let no time pass for them. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#managers.map(manager => manager[Symbol.asyncDispose]()))
  }

  #boot(node: number, skewMs: number): void {
    const { time, ca, identities, ttlSeconds, settleMs, seed } = this.#options
    const numbers = new Map<string, number>()
    const manager = new SecretManager({
      ca: ca.connect(),
      keyGenerator: placeholderKeyGenerator,
      verifier: placeholderVerifier,
      clock: time.clock(skewMs),
      trustDomain: TRUST_DOMAIN,
      random: seededRandom(seed + 1 + node),
      ttlSeconds,
      rotation: settleMs === undefined ? {} : { settleMs },
    })
    manager.events.subscribe(report => this.#observe(node, numbers.get(report.name), report))
    this.#managers.push(manager)
    for (let index = 0; index < identities; index++) {
      const identity = this.#identityOf(node, index)
      const number = node * identities + index
      numbers.set(identity, number)
      manager.watch({ kind: 'identity', identity }, item => this.#serve(number, item))
    }
    for (const identity of numbers.keys()) manager.add(identity as SpiffeId)
  }

  #identityOf(node: number, index: number): SpiffeId {
    const namespace = this.#options.names === 'own' ? `node-${node}` : 'every-node'
    return `spiffe://${TRUST_DOMAIN}/ns/${namespace}/sa/sa-${index}`
  }

  #serve(identity: number, item: SecretItem | undefined): void {
    const now = this.#options.time.now()
    if (item?.kind !== 'certificate') {
      this.service.withdrawn(identity, now)
      return
    }
    this.service.served(identity, now, item.notAfter)
    this.onServed(identity, item)
  }

  #observe(node: number, identity: number | undefined, { event }: SecretReport): void {
    if (event.kind === 'roots-changed') this.onRoots(node)
    if (identity === undefined) return
    if (event.kind === 'ca-error' && this.#isFailing[identity] === 0) {
      this.#isFailing[identity] = 1
      this.failing++
    } else if (event.kind === 'issued' && this.#isFailing[identity] === 1) {
      this.#isFailing[identity] = 0
      if (--this.failing === 0) this.allWellSince = this.#options.time.now()
    }
  }
}
