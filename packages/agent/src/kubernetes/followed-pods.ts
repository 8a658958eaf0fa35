/** The pods of this node, from the API server to their held identities. */
import { ApiConnection, ObjectsApi, ObjectWatcher, PodLogin, type WatchState } from '@livery/ca-plugins/kubernetes-api'
import { type Clock, isSpiffeId, sleep, type WorkloadTokens } from '@livery/core/plugin'
import { parseDnsTemplate, parseIdentityTemplate } from '../config/identity-template.ts'
import type { KubernetesSetting } from '../config/kubernetes-schema.ts'
import type { WishSetting } from '../config/wish-schema.ts'
import type { PodsStatus } from '../diagnosis/facts.ts'
import type { Basis } from '../life/basis.ts'
import type { EventLog } from '../observe/event-log.ts'
import { pluginLog } from '../observe/plugin-log.ts'
import { CallerTokens } from './caller-tokens.ts'
import { identifyPods } from './identify-pods.ts'
import { NodePods, type PodProblem, podsOf } from './node-pods.ts'
import type { PodChange } from './pod.ts'
import { type PodCallers, podNameOf } from './pod-callers.ts'
import { type IdentityHolder, PodIdentities } from './pod-identities.ts'
import { PodTokens } from './pod-tokens.ts'

/** How long an agent that takes over waits for the pods before it serves without them. */
const PATIENCE_MS = 30_000
const STATES = ['unknown', 'watching', 'away'] as const
const REMEDY = 'Remove the section kubernetes, or run it in a pod'

export class FollowedPods implements AsyncDisposable {
  /** The tokens of the listed pods. */
  readonly tokens: WorkloadTokens
  /** The tokens that pods request themselves. */
  readonly callerTokens: CallerTokens
  /** `undefined` if no socket identifies pods and this machine prevents it. */
  readonly callers: PodCallers | undefined
  readonly #clock: Clock
  readonly #log: EventLog
  readonly #stack = new AsyncDisposableStack()
  readonly #pods: NodePods
  readonly #wish: WishSetting
  readonly #watcher: ObjectWatcher<unknown>
  #identities: PodIdentities | undefined

  /** Starts the list. Throws an `Error` outside of a pod. */
  constructor(setting: KubernetesSetting, { config, clock, log, metrics, scopes, events }: Basis) {
    const { nodeName, identity, selector, namespaces, dnsNames = [] } = setting
    const { trustDomain } = config
    this.#clock = clock
    this.#log = log
    const template = parseIdentityTemplate(identity, trustDomain)
    if ('problem' in template) throw new TypeError(`Cannot use kubernetes.identity: it ${template.problem}`)
    const templates = dnsNames
      .map(text => parseDnsTemplate(text, trustDomain))
      .flatMap(each => ('problem' in each ? [] : [each]))
    this.#wish = setting
    this.#pods = new NodePods(nodeName, { trustDomain, template, dnsNames: templates, selector, namespaces }, problem =>
      this.#onProblem(problem),
    )
    const callers = identifyPods(config, this.#pods)
    this.callers = callers && this.#stack.use(callers)
    const connection = this.#stack.use(new ApiConnection(new PodLogin(REMEDY), clock))
    const tokens = new PodTokens(clock, pluginLog(scopes.of('kubernetes'), 'kubernetes'))
    this.tokens = tokens
    this.#stack.use(tokens.follow({ pods: this.#pods, connection }))
    this.callerTokens = this.#stack.use(new CallerTokens(clock, this.#pods, connection))
    events.subscribe(({ name, event }) => {
      if (event.kind === 'ca-error' && event.code === 'unauthenticated' && isSpiffeId(name)) tokens.refused(name)
    })
    this.#stack.use(this.#pods.changes.subscribe(change => this.#onChange(change)))
    this.#watcher = this.#stack.use(
      new ObjectWatcher({
        api: new ObjectsApi({ ...podsOf(nodeName), connection, clock }),
        table: this.#pods,
        clock,
        onState: state => this.#onState(state),
      }),
    )
    metrics.add([
      {
        name: 'livery_pods_watch_state',
        help: '1 for the state of the watch at the API server: unknown (no list has come), watching, away (no answer).',
        labels: ['state'],
        read: () => STATES.map(state => [this.#watcher.state.kind === state ? 1 : 0, state] as const),
      },
    ])
  }

  /** See {@link podNameOf}. */
  nameOf(subject: string): string | undefined {
    return podNameOf(subject, this.#pods)
  }

  /** Holds the identities of the pods until the result or this is disposed. */
  follow(holder: IdentityHolder): Disposable {
    this.#identities = this.#stack.use(
      new PodIdentities({
        pods: this.#pods,
        clock: this.#clock,
        wish: this.#wish,
        onProblem: problem => this.#onProblem(problem),
        ...holder,
      }),
    )
    return this.#identities
  }

  /** Resolves when the identities of the first listed pods are held, after 30 s at the latest. */
  async listed(): Promise<void> {
    await Promise.race([this.#identities?.listed, sleep(this.#clock, PATIENCE_MS)])
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
    this.#log.write({ kind: `pod-${kind}`, pod: `${namespace}/${name}`, podUid: uid, identity })
  }

  #onProblem({ pod, dnsName, reason: message }: PodProblem): void {
    if (dnsName === undefined) this.#log.write({ kind: 'pod-refused', pod, message })
    else this.#log.write({ kind: 'pod-name-refused', pod, dnsName, message })
  }

  #onState(state: WatchState): void {
    if (state.kind === 'watching') this.#log.write({ kind: 'pods-known', ...this.#pods.counts })
    else this.#log.write({ kind: state.kind === 'away' ? 'pods-away' : 'pods-unknown', message: state.error })
  }
}
