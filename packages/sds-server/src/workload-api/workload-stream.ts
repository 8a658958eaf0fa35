/** One stream of the Workload API without its transport: the caller's identities, with their newest certificates and bundles. */
import type { AllBundlesSecret, CertificateSecret, SecretItem } from '@livery/core'
import { type SpiffeId, trustDomainOf } from '@livery/core/plugin'
import type { DiscoveryStream, StreamContext } from '../protocol/discovery-protocol.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { Subscriptions } from '../protocol/subscriptions.ts'

/** Clients read all certificates of a message, and take 4 MiB. */
const MAX_IDENTITIES = 64

/** An identity with its certificate. */
export interface Svid {
  readonly identity: SpiffeId
  readonly item: CertificateSecret
}

/** A message to a stream: it is complete. */
export interface WorkloadMessage {
  /** The version of the whole content: equal versions mean equal messages. */
  readonly version: string
  /** The default identity first; empty in a message that has only bundles. */
  readonly svids: readonly Svid[]
  /** The bundles of all trust domains, including each SVID's. */
  readonly bundles: AllBundlesSecret
}

/** It has no fields, and acknowledges nothing. */
export interface WorkloadRequest {
  readonly responseNonce: ''
  readonly errorDetail: undefined
}

/** `svids`: the caller's identities and the roots; `bundles`: the roots; `trust-domains`: which trust domains have some. */
export type WorkloadContent = 'svids' | 'bundles' | 'trust-domains'

interface WorkloadStreamOptions {
  readonly content: WorkloadContent
  /** The resource name of the bundles of all trust domains. */
  readonly allBundles: string
}

export class WorkloadStream implements DiscoveryStream<WorkloadRequest, WorkloadMessage> {
  /** The Workload API has none. */
  readonly nodeId = ''
  readonly #context: StreamContext
  readonly #options: WorkloadStreamOptions
  readonly #subscriptions: Subscriptions
  /** The default first. */
  #identities: readonly SpiffeId[] = []
  #hasRequest = false
  #sentVersion: string | undefined

  constructor(context: StreamContext, subscriptions: Subscriptions, options: WorkloadStreamOptions) {
    this.#context = context
    this.#options = options
    this.#subscriptions = subscriptions
  }

  /** The client ends its side with its one request. */
  get outlivesRequests(): boolean {
    return this.#hasRequest
  }

  receive(_request: WorkloadRequest): void {
    if (this.#hasRequest) throw new StreamRefusal('invalid-argument', 'a second request: this method takes one')
    this.#hasRequest = true
    this.#follow()
  }

  reviewed(): void {
    if (this.#hasRequest) this.#follow()
  }

  take(): WorkloadMessage | undefined {
    this.#update()
    const message = this.#compose()
    if (!message || message.version === this.#sentVersion) return undefined
    this.#sentVersion = message.version
    if (this.#options.content === 'trust-domains') return message
    for (const { identity, item } of message.svids) this.#reportPushed(identity, item)
    const { bundles } = message
    this.#reportPushed(this.#options.allBundles, bundles)
    if (bundles.own) this.#context.receipts?.sent(bundles.own)
    return message
  }

  /**
   * The client replaces all that it has by the message (section 4.4 of the specification), and cannot reject it: no answer
   * will come.
   */
  received({ bundles }: WorkloadMessage): void {
    if (this.#options.content === 'trust-domains') return
    if (bundles.own) this.#context.receipts?.accepted(bundles.own)
  }

  /** Subscribes to exactly the names that it sends. Throws a `StreamRefusal` if the caller has no identity, or too many. */
  #follow(): void {
    const own = ownIdentities(this.#context)
    this.#identities = this.#options.content === 'svids' ? sendable(own) : []
    const wanted = new Set([...this.#identities, this.#options.allBundles])
    for (const name of this.#subscriptions.names()) if (!wanted.has(name)) this.#subscriptions.delete(name)
    for (const name of wanted) if (!this.#subscriptions.has(name)) this.#subscriptions.ask(name)
  }

  #update(): void {
    // An identity that was forgotten is no longer the caller's; one that has expired is, and waits.
    if (this.#subscriptions.takeRemoved().length > 0) this.#follow()
    this.#subscriptions.takeDue()
  }

  /**
   * Composes current items only: the key of a replaced item is wiped, even if both have one version. `undefined` without a
   * certificate for the default identity: clients would treat the next one as the default.
   */
  #compose(): WorkloadMessage | undefined {
    const bundles = this.#subscriptions.current(this.#options.allBundles)
    if (bundles?.kind !== 'all-bundles') return undefined
    if (this.#options.content === 'trust-domains') return composeTrustDomains(bundles)
    const svids = this.#identities.flatMap((identity): Svid[] => {
      const item = this.#subscriptions.current(identity)
      return item?.kind === 'certificate' ? [{ identity, item }] : []
    })
    return svids[0]?.identity === this.#identities[0] ? composeMessage(svids, bundles) : undefined
  }

  #reportPushed(name: string, { name: ledgerName, version }: SecretItem): void {
    this.#context.record.report({ kind: 'pushed', name, ledgerName, version })
  }
}

function ownIdentities({ connection }: StreamContext): readonly SpiffeId[] {
  const identities = connection.permission.ownIdentities()
  if (identities.length > 0) return identities
  throw new StreamRefusal(
    'permission-denied',
    'no identity is issued to this caller here: see allow and callers of this socket, or give the workload its own socket',
  )
}

function sendable(identities: readonly SpiffeId[]): readonly SpiffeId[] {
  if (identities.length <= MAX_IDENTITIES) return identities
  const count = `${identities.length} identities, more than ${MAX_IDENTITIES}`
  throw new StreamRefusal('permission-denied', `this caller has ${count}: name its own in callers of this socket`)
}

/** `undefined` if a bundle is missing that has to be in it. */
export function composeMessage(svids: readonly Svid[], bundles: AllBundlesSecret): WorkloadMessage | undefined {
  const has = (identity: SpiffeId) => bundles.bundles.some(each => each.trustDomain === trustDomainOf(identity))
  const isWhole = svids.length > 0 ? svids.every(({ identity }) => has(identity)) : bundles.own !== undefined
  if (!isWhole) return undefined
  const version = [
    bundles.version,
    ...svids.map(({ identity, item }) => `${identity} ${item.version} ${item.hint ?? ''}`),
  ].join()
  return { version, svids, bundles }
}

/** As `composeMessage`, for a stream that sends the names of the trust domains without their roots. */
function composeTrustDomains(bundles: AllBundlesSecret): WorkloadMessage | undefined {
  if (!bundles.own) return undefined
  return { version: bundles.bundles.map(({ trustDomain }) => trustDomain).join(), svids: [], bundles }
}
