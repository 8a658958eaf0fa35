/** The pods of this node, from the API server to the identities that are held for them. */
import { ApiConnection, PodLogin } from '@livery/ca-plugins/kubernetes-api'
import { type Clock, sleep } from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { KubernetesSetting } from '../config/kubernetes-schema.ts'
import type { Config } from '../config/load.ts'
import type { PodsStatus } from '../diagnosis/facts.ts'
import { parseIdentityTemplate } from '../kubernetes/identity-template.ts'
import { NodePods } from '../kubernetes/node-pods.ts'
import type { PodChange, PodTable } from '../kubernetes/pod.ts'
import { podNameOf } from '../kubernetes/pod-callers.ts'
import type { PodTokens } from '../kubernetes/pod-tokens.ts'
import { PodWatcher, type WatchState } from '../kubernetes/pod-watcher.ts'
import { PodsApi } from '../kubernetes/pods-api.ts'
import type { EventLog } from '../observe/event-log.ts'
import type { Metrics } from '../observe/metrics.ts'
import { podMetrics } from '../observe/pod-metrics.ts'
import type { IdentityUnion } from './identity-union.ts'
import { PodIdentities } from './pod-identities.ts'

export interface PodParts {
  readonly clock: Clock
  readonly log: EventLog
  readonly metrics: Pick<Metrics, 'add'>
  readonly tokens: PodTokens | undefined
}

/** How long an agent that takes over waits for the pods before it serves without them. */
const PATIENCE_MS = 30_000
const REMEDY = 'Remove the section kubernetes, or run it in a pod'

export class FollowedPods implements AsyncDisposable {
  readonly #parts: PodParts
  readonly #stack = new AsyncDisposableStack()
  readonly #pods: NodePods
  readonly #watcher: PodWatcher
  #identities: PodIdentities | undefined

  /** Begins to list. Throws an `Error` outside of a pod. */
  constructor(setting: KubernetesSetting, { trustDomain }: Pick<Config, 'trustDomain'>, parts: PodParts) {
    const { clock, log, metrics, tokens } = parts
    const { nodeName, identity, selector, namespaces } = setting
    this.#parts = parts
    const template = parseIdentityTemplate(identity, trustDomain)
    if ('problem' in template) throw new TypeError(`Cannot use kubernetes.identity: it ${template.problem}`)
    this.#pods = new NodePods({
      nodeName,
      rules: { trustDomain, template, selector, namespaces },
      onProblem: ({ pod, reason }) => log.write({ kind: 'pod-refused', pod, message: reason }),
    })
    const connection = this.#stack.use(
      new ApiConnection({ login: new PodLogin({ remedy: REMEDY }), clock, credentials: undefined }),
    )
    if (tokens) this.#stack.use(tokens.follow({ pods: this.#pods, connection }))
    this.#stack.use(this.#pods.changes.subscribe(change => this.#onChange(change)))
    this.#watcher = this.#stack.use(
      new PodWatcher({
        api: new PodsApi({ connection, clock, nodeName }),
        pods: this.#pods,
        clock,
        onState: state => this.#onState(state),
      }),
    )
    metrics.add(podMetrics(this.#watcher))
  }

  get table(): PodTable {
    return this.#pods
  }

  /** See {@link podNameOf}. */
  nameOf(subject: string): string | undefined {
    return podNameOf(subject, this.#pods)
  }

  /** Holds the identities of the pods until this is disposed. */
  follow(union: IdentityUnion, sds: SdsServer): void {
    this.#identities = this.#stack.use(new PodIdentities({ pods: this.#pods, union, sds, clock: this.#parts.clock }))
  }

  /** Resolves when the identities of the pods that were listed first are held, after 30 s in any case. */
  async listed(): Promise<void> {
    await Promise.race([this.#identities?.listed, sleep(this.#parts.clock, PATIENCE_MS)])
  }

  status(): PodsStatus {
    const { state } = this.#watcher
    if (state.kind === 'watching') return { known: true, problem: undefined }
    return { known: state.kind === 'away', problem: state.error }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  #onChange({ kind, pod: { uid, namespace, name, identity } }: PodChange): void {
    this.#parts.log.write({ kind: `pod-${kind}`, pod: `${namespace}/${name}`, podUid: uid, identity })
  }

  #onState(state: WatchState): void {
    const { log } = this.#parts
    if (state.kind === 'watching') log.write({ kind: 'pods-known', ...this.#pods.counts })
    else log.write({ kind: state.kind === 'away' ? 'pods-away' : 'pods-unknown', message: state.error })
  }
}
