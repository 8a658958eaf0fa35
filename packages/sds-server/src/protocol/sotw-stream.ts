/**
 * The state-of-the-world form of SDS: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 * A response holds the names that changed or were asked for, as SDS allows, never one that was not asked for.
 */

import type { Node } from '../gen/envoy/config/core/v3/base.ts'
import type { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { Acknowledgements } from './acknowledgements.ts'
import type { DiscoveryStream, StreamContext } from './discovery-protocol.ts'
import { checkNames, checkNode, checkTypeUrl } from './request-codec.ts'
import type { DiscoveryMessage } from './response-content.ts'
import type { Subscriptions } from './subscriptions.ts'

/**
 * The answer to a peer that asks only for names that it is refused: a response without resources (`omit`), or one secret per
 * name that no peer accepts (`invalidate`). Envoy ignores the first, and waits for its `initial_fetch_timeout`. After the
 * second, a recent Envoy that asks for one name treats it as removed, and ends the handshakes that wait for it.
 */
export type RefusedNames = 'omit' | 'invalidate'

const NO_NAMES: readonly string[] = []

/** How a stream came to its names. */
type Interest = 'nothing yet' | 'everything' | 'named'

export class SotwStream implements DiscoveryStream<DiscoveryRequest> {
  nodeId = ''
  readonly #context: StreamContext
  readonly #subscriptions: Subscriptions
  readonly #acknowledgements: Acknowledgements
  #interest: Interest = 'nothing yet'
  /** The names of the previous request, which most of the next requests repeat. */
  #named: readonly string[] = []
  /** The names that a due response without a secret answers as invalid. */
  #refusalDue: readonly string[] | undefined
  readonly #refusedNames: RefusedNames
  /** Whether the peer treats an expired secret as removed. */
  #takesExpiry = false

  constructor(context: StreamContext, subscriptions: Subscriptions, refusedNames: RefusedNames = 'omit') {
    this.#context = context
    this.#refusedNames = refusedNames
    this.#subscriptions = subscriptions
    this.#acknowledgements = new Acknowledgements(context, subscriptions)
  }

  receive(request: DiscoveryRequest): void {
    const isFirst = this.nodeId === ''
    if (isFirst) {
      this.nodeId = checkNode(request.node)
      this.#takesExpiry = takesExpiry(request.node)
    }
    checkTypeUrl(request.typeUrl)
    const isSame = this.#interest === 'named' && isSameList(request.resourceNames, this.#named)
    if (!isSame) checkNames(request.resourceNames, this.#context.shared.maxNames)

    // A nonce in the first request is left over from an earlier stream, and means nothing here.
    const answersNonce = !isFirst && request.responseNonce !== ''
    if (answersNonce && !this.#acknowledgements.acknowledge(request.responseNonce, request.errorDetail)) return
    const isInitial = isFirst || (request.responseNonce === '' && request.errorDetail === undefined)
    if (isSame) {
      if (isInitial) this.#ask(this.#named)
      return
    }
    if (answersNonce && this.#interest === 'everything' && request.resourceNames.length === 0) return
    this.#follow(this.#wanted(request.resourceNames), isInitial)
  }

  take(): DiscoveryMessage | undefined {
    this.#subscriptions.takeRemoved()
    const resources = this.#subscriptions.takeDue()
    const refused = this.#refusalDue
    if (resources.length === 0 && !refused) return undefined
    this.#refusalDue = undefined
    // A peer rejects a response as a whole: invalid resources never travel with a secret.
    const invalid = resources.length === 0 && refused ? refused : NO_NAMES
    // Envoy would look for the other names of the stream among the removed ones.
    const isExpired = this.#takesExpiry && this.#subscriptions.size === 1
    return this.#acknowledgements.compose(resources, invalid, isExpired)
  }

  /** The empty list means everything until names were given once; from then on it means nothing. */
  #wanted(names: readonly string[]): ReadonlySet<string> {
    if (names.length > 0) this.#interest = 'named'
    else if (this.#interest === 'nothing yet') this.#interest = 'everything'
    if (this.#interest === 'everything')
      return new Set(this.#context.connection.permission.everything(this.#context.shared.maxNames))
    const wanted = new Set(names)
    this.#named = wanted.size === names.length ? names.slice() : [...wanted]
    return wanted
  }

  /** Subscribes to exactly `wanted`; an initial request is answered for all of them, another one for what it adds. */
  #follow(wanted: ReadonlySet<string>, isInitial: boolean): void {
    for (const name of this.#subscriptions.names()) if (!wanted.has(name)) this.#subscriptions.delete(name)
    this.#ask(isInitial ? wanted : [...wanted].filter(name => !this.#subscriptions.has(name)))
  }

  #ask(names: Iterable<string>): void {
    let isAsking = false
    let isAnswerable = false
    for (const name of names) {
      isAsking = true
      if (this.#subscriptions.ask(name)) isAnswerable = true
    }
    // No push will ever bring it: answer without a secret, or the peer would wait.
    if (isAsking && !isAnswerable) this.#refusalDue = this.#refusedNames === 'invalidate' ? [...names] : NO_NAMES
  }
}

/** Envoy before 1.37 would crash if a secret were removed over SotW. */
function takesExpiry(node: Node | undefined): boolean {
  const { majorNumber = 0, minorNumber = 0 } = node?.userAgentBuildVersion?.version ?? {}
  return node?.userAgentName === 'envoy' && (majorNumber > 1 || (majorNumber === 1 && minorNumber >= 37))
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, index) => name === b[index])
}
