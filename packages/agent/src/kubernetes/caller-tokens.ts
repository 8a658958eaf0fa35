/** Tokens that callers get by `token://AUDIENCE`: each belongs to the caller's pod, and is forgotten with it. */
import type { ApiConnection } from '@livery/ca-plugins/kubernetes-api'
import type { TokenName } from '@livery/core'
import type { FollowedToken, PodTokenSource } from '@livery/core/file-secrets'
import { CAError, type Clock } from '@livery/core/plugin'
import { HeldToken, LIFE_SECONDS } from './held-token.ts'
import type { PodTable } from './pod.ts'
import { requestToken } from './token-request.ts'

/** Each token costs a call of the API server now and then. */
const MAX_OF_POD = 16

export class CallerTokens implements PodTokenSource, Disposable {
  readonly #clock: Clock
  readonly #pods: PodTable
  readonly #connection: Pick<ApiConnection, 'request'>
  /** Tokens by the UID of their pod and by audience. A token stays while its pod does: repeated requests cost one call. */
  readonly #held = new Map<string, Map<string, HeldToken>>()
  readonly #subscription: Disposable

  constructor(clock: Clock, pods: PodTable, connection: Pick<ApiConnection, 'request'>) {
    this.#clock = clock
    this.#pods = pods
    this.#connection = connection
    this.#subscription = pods.changes.subscribe(({ kind, pod }) => {
      if (kind === 'removed') this.#forget(pod.uid)
    })
  }

  refusal({ pod: uid = '' }: TokenName): string | undefined {
    const pod = this.#pods.get(uid)
    if (!pod) return 'is a token of a pod that is not on this node, or has ended'
    if (pod.serviceAccount === '') return 'is a token of a pod without a service account, as static pods are'
    return undefined
  }

  noRoom({ audience, pod: uid = '' }: TokenName): string | undefined {
    const held = [...(this.#held.get(uid) ?? [])]
    const followed = held.filter(([other, { isFollowed }]) => isFollowed && other !== audience)
    if (followed.length < MAX_OF_POD) return undefined
    return `would be one more than ${MAX_OF_POD}, as many tokens as a pod can have at once: it waits until another is released; ask for fewer audiences`
  }

  follow(name: TokenName, onChange: () => void): FollowedToken {
    const refusal = this.refusal(name) ?? this.noRoom(name)
    if (refusal !== undefined) return refused(refusal)
    const token = this.#heldOf(name)
    const following = token.follow(onChange)
    return { read: () => token.read(), [Symbol.dispose]: () => following[Symbol.dispose]() }
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
    for (const uid of [...this.#held.keys()]) this.#forget(uid)
  }

  #heldOf({ audience, pod: uid = '' }: TokenName): HeldToken {
    const ofPod = this.#held.get(uid) ?? new Map<string, HeldToken>()
    this.#held.set(uid, ofPod)
    const present = ofPod.get(audience)
    if (present) return present
    for (const [other, token] of ofPod) if (ofPod.size >= MAX_OF_POD && !token.isFollowed) end(ofPod, other, token)
    const clock = this.#clock
    const token = new HeldToken(clock, async signal => {
      const pod = this.#pods.get(uid)
      if (!pod) throw new CAError('unavailable', 'Cannot get the token: its pod has ended.', { local: true })
      return await requestToken(this.#connection, { pod, audience, expirationSeconds: LIFE_SECONDS }, clock, signal)
    })
    ofPod.set(audience, token)
    return token
  }

  #forget(uid: string): void {
    for (const token of this.#held.get(uid)?.values() ?? []) token[Symbol.dispose]()
    this.#held.delete(uid)
  }
}

function end(tokens: Map<string, HeldToken>, audience: string, token: HeldToken): void {
  token[Symbol.dispose]()
  tokens.delete(audience)
}

/** The pod may end between the answer to a caller and the watch of its name. */
function refused(reason: string): FollowedToken {
  const failure = new CAError('unavailable', `Cannot get the token: it ${reason}.`, { local: true })
  return { read: () => Promise.reject(failure), [Symbol.dispose]() {} }
}
