/** Service account tokens of this node's pods: requested on use, bound to a living pod, held in memory only. */
import { TokenCache } from '@livery/ca-plugins/credentials'
import type { ApiConnection } from '@livery/ca-plugins/kubernetes-api'
import {
  CAError,
  type Clock,
  type Credential,
  type PluginLog,
  type SpiffeId,
  type WorkloadTokenRequest,
  type WorkloadTokens,
} from '@livery/core/plugin'
import type { Pod, PodTable } from './pod.ts'
import { requestToken } from './token-request.ts'

/** The known pods, and the connection to ask for their tokens. */
export interface PodSource {
  readonly pods: PodTable
  readonly connection: Pick<ApiConnection, 'request'>
}

interface TokensOfPod {
  readonly cache: TokenCache
  readonly since: number
}

/** Renewed on use after three quarters of its life. */
const REFRESH = { beforeMs: (lifetimeMs: number) => lifetimeMs / 4, intervalMs: 10_000 }
/** Bounds the calls of the API server even if a CA refuses every token. */
const LEAST_BETWEEN_MS = 10_000

/** Holds only tokens of existing pods, and drops a pod's tokens with the pod. */
export class PodTokens implements WorkloadTokens {
  readonly #clock: Clock
  readonly #log: Pick<PluginLog, 'warn'>
  /** Keyed by the UID of the pod to which they are bound. */
  readonly #held = new Map<string, TokensOfPod>()
  #source: PodSource | undefined

  constructor(clock: Clock, log: Pick<PluginLog, 'warn'>) {
    this.#clock = clock
    this.#log = log
  }

  /** Uses the pods of `source` from now on, until the result is disposed. */
  follow(source: PodSource): Disposable {
    this.#source = source
    const subscription = source.pods.changes.subscribe(({ kind, pod }) => {
      if (kind === 'removed') this.#held.delete(pod.uid)
    })
    return {
      [Symbol.dispose]: () => {
        subscription[Symbol.dispose]()
        this.#source = undefined
        this.#held.clear()
      },
    }
  }

  async get({ identity, audience, expirationSeconds, signal }: WorkloadTokenRequest): Promise<Credential> {
    const source = this.#source
    if (!source) throw refusal(identity, NOT_KNOWN)
    const pod = boundPod(source.pods, identity)
    if (!pod) throw refusal(identity, NO_POD)
    const wish = { pod, audience, expirationSeconds }
    const { cache } = this.#tokensOf(pod)
    return await cache.get(`${expirationSeconds} ${audience}`, signal, aborted =>
      requestToken(source.connection, wish, this.#clock, aborted),
    )
  }

  /** The CA refused the token of `identity`: the next caller gets a new one, unless this one is new. */
  refused(identity: SpiffeId): void {
    const pod = this.#source && boundPod(this.#source.pods, identity)
    const held = pod && this.#held.get(pod.uid)
    if (held && Math.abs(this.#clock.now() - held.since) >= LEAST_BETWEEN_MS) this.#held.delete(pod.uid)
  }

  #tokensOf({ uid }: Pod): TokensOfPod {
    const present = this.#held.get(uid)
    if (present) return present
    const tokens = { cache: new TokenCache(this.#clock, this.#log, REFRESH), since: this.#clock.now() }
    this.#held.set(uid, tokens)
    return tokens
  }
}

/** The same pod for all identities of its service account, so that they share its tokens. */
function boundPod(pods: PodTable, identity: SpiffeId): Pod | undefined {
  const account = firstPod(pods, pod => pod.identity === identity)
  if (!account) return undefined
  const { namespace, serviceAccount } = account
  return firstPod(pods, pod => pod.serviceAccount === serviceAccount && pod.namespace === namespace)
}

/** The mirror of a static pod has no service account. */
function firstPod(pods: PodTable, matches: (pod: Pod) => boolean): Pod | undefined {
  for (const pod of pods.all()) if (pod.serviceAccount !== '' && matches(pod)) return pod
  return undefined
}

const NOT_KNOWN =
  'the API server has not listed the pods of this node yet. It is asked again; an identity that the configuration names can have a tokenFile.'
const NO_POD =
  'no pod of this node with a service account has it. If its pods have ended, nothing is to be done: it is let go after removal.grace. If one starts, it is asked again. An identity that the configuration names needs a tokenFile.'

function refusal(identity: SpiffeId, why: string): CAError {
  return new CAError('unauthenticated', `Cannot get a token for ${identity}: ${why}`, { local: true })
}
