/** N nodes × M identities on virtual time and against the modelled CA, and the state of their certificates. */
import type { SecretEvent } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { type Dates, type NodeOptions, SimulatedNode } from './node.ts'
import { seededRandom } from './seeded-random.ts'
import { ServiceRecord } from './service-record.ts'

export interface FleetOptions
  extends Pick<NodeOptions, 'time' | 'ca' | 'roots' | 'roundTripMs' | 'ttlSeconds' | 'settleMs'> {
  readonly nodes: number
  /** The identities of each node. */
  readonly identities: number
  /** `own`: every identity is on one node only. `shared`: all nodes have the same identities, as with DaemonSets. */
  readonly names: 'own' | 'shared'
  /** The time within which the nodes start, milliseconds. */
  readonly bootWithinMs: number
  /** The most that clocks are ahead or behind, milliseconds. */
  readonly skewMs: number
  readonly seed: number
}

const TRUST_DOMAIN = 'cluster.local'

export class Fleet {
  readonly service: ServiceRecord
  readonly identities: number
  /** When the last identity that had an error got its certificate; the start if there was no error. */
  allWellSince: number
  /** Identities whose last call failed. */
  failing = 0
  /** Called with each certificate that comes into use. */
  onServed: (identity: number, certificate: Dates) => void = () => {}
  /** Called when a node takes in new roots. */
  onRoots: (node: number) => void = () => {}
  readonly #options: FleetOptions
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
      const skewMs = options.skewMs * (2 * random() - 1)
      time.at(time.start + bootWithinMs * random(), () => this.#boot(node, skewMs))
    }
  }

  #boot(node: number, skewMs: number): void {
    const { time, identities, seed, names } = this.#options
    const namespace = names === 'own' ? `node-${node}` : 'every-node'
    const numbers = new Map<string, number>()
    const numberOf = (id: string) => numbers.get(id) ?? Number.NaN
    const simulated = new SimulatedNode({
      ...this.#options,
      trustDomain: TRUST_DOMAIN,
      skewMs,
      random: seededRandom(seed + 1 + node),
      onServed: (id, certificate) => this.#served(numberOf(id), certificate),
      onWithdrawn: id => this.service.withdrawn(numberOf(id), time.now()),
      onReport: (name, event) => this.#observe(node, () => numberOf(name), event),
    })
    for (let index = 0; index < identities; index++) {
      const id: SpiffeId = `spiffe://${TRUST_DOMAIN}/ns/${namespace}/sa/sa-${index}`
      numbers.set(id, node * identities + index)
      simulated.add(id)
    }
  }

  #served(identity: number, certificate: Dates): void {
    this.service.served(identity, this.#options.time.now(), certificate.notAfter)
    this.onServed(identity, certificate)
  }

  #observe(node: number, identity: () => number, event: SecretEvent): void {
    if (event.kind === 'roots-changed') this.onRoots(node)
    else if (event.kind === 'ca-error') this.#mark(identity(), 1)
    else if (event.kind === 'issued' && this.failing > 0) {
      this.#mark(identity(), 0)
      if (this.failing === 0) this.allWellSince = this.#options.time.now()
    }
  }

  #mark(identity: number, isFailing: 0 | 1): void {
    // A trust domain has no number.
    if (Number.isNaN(identity)) return
    this.failing += isFailing - (this.#isFailing[identity] ?? 0)
    this.#isFailing[identity] = isFailing
  }
}
