/** The incremental form of SDS: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds */

import type { DeltaDiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { Acknowledgements } from './acknowledgements.ts'
import type { DiscoveryStream, StreamContext } from './discovery-protocol.ts'
import { checkCount, checkNames, checkNode, checkTypeUrl } from './request-codec.ts'
import type { DiscoveryMessage } from './response-content.ts'
import type { Subscriptions } from './subscriptions.ts'

const EVERYTHING = '*'

export class DeltaStream implements DiscoveryStream<DeltaDiscoveryRequest> {
  nodeId = ''
  readonly #context: StreamContext
  readonly #subscriptions: Subscriptions
  readonly #acknowledgements: Acknowledgements
  /** Names that are subscribed to only because everything is. */
  readonly #implied = new Set<string>()

  constructor(context: StreamContext, subscriptions: Subscriptions) {
    this.#context = context
    this.#subscriptions = subscriptions
    this.#acknowledgements = new Acknowledgements(context, subscriptions)
  }

  receive(request: DeltaDiscoveryRequest): void {
    const isFirst = this.nodeId === ''
    if (isFirst) this.nodeId = checkNode(request.node)
    checkTypeUrl(request.typeUrl)
    const { resourceNamesSubscribe: subscribe, resourceNamesUnsubscribe: unsubscribe } = request
    for (const names of [subscribe, unsubscribe, Object.keys(request.initialResourceVersions)]) {
      checkNames(names, this.#context.shared.maxNames)
    }

    if (!isFirst && request.responseNonce !== '') {
      this.#acknowledgements.acknowledge(request.responseNonce, request.errorDetail)
    }
    for (const name of unsubscribe) this.#unsubscribe(name)
    const held = new Map(isFirst ? Object.entries(request.initialResourceVersions) : [])
    if (subscribe.includes(EVERYTHING) || (isFirst && subscribe.length === 0)) this.#subscribeToEverything(held)
    for (const name of new Set(subscribe)) if (name !== EVERYTHING) this.#subscribe(name, held.get(name))
  }

  take(): DiscoveryMessage | undefined {
    const resources = this.#subscriptions.takeDue()
    const removed = this.#subscriptions.takeRemoved()
    if (resources.length === 0 && removed.length === 0) return undefined
    return this.#acknowledgements.compose(resources, removed)
  }

  #subscribe(name: string, held: string | undefined): void {
    this.#implied.delete(name)
    if (!this.#subscriptions.has(name)) checkCount(this.#subscriptions.size + 1, this.#context.shared.maxNames)
    this.#ask(name, held)
  }

  #subscribeToEverything(held: ReadonlyMap<string, string>): void {
    const everything = new Set(this.#context.connection.permission.everything(this.#context.shared.maxNames))
    for (const name of everything) {
      if (this.#subscriptions.has(name)) continue
      this.#implied.add(name)
      this.#ask(name, held.get(name))
    }
    for (const name of held.keys()) if (!everything.has(name)) this.#subscriptions.remove(name)
  }

  #unsubscribe(name: string): void {
    const names = name === EVERYTHING ? [...this.#implied] : [name]
    for (const each of names) {
      this.#implied.delete(each)
      this.#subscriptions.delete(each)
    }
  }

  #ask(name: string, held: string | undefined): void {
    if (!this.#subscriptions.ask(name, held)) this.#subscriptions.remove(name)
  }
}
