/** The pods of this node, from the API server to the identities that are held for them and their sockets. */
import { ApiConnection, PodLogin } from '@livery/ca-plugins/kubernetes-api'
import { type Clock, sleep } from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { KubernetesSetting } from '../config/kubernetes-schema.ts'
import type { Config } from '../config/load.ts'
import type { IdentityUnion } from '../identity-source/identity-union.ts'
import { SourceFollower } from '../identity-source/source-follower.ts'
import { parseIdentityTemplate } from '../kubernetes/identity-template.ts'
import { NodePods } from '../kubernetes/node-pods.ts'
import type { PodChange, PodTable } from '../kubernetes/pod.ts'
import { podNameOf } from '../kubernetes/pod-callers.ts'
import { PodFolders } from '../kubernetes/pod-folders.ts'
import { PodIdentities } from '../kubernetes/pod-identities.ts'
import type { PodTokens } from '../kubernetes/pod-tokens.ts'
import { PodWatcher, type WatchState } from '../kubernetes/pod-watcher.ts'
import { PodsApi } from '../kubernetes/pods-api.ts'
import type { EventLog } from '../observe/event-log.ts'
import type { Metrics } from '../observe/metrics.ts'
import { podMetrics } from '../observe/pod-metrics.ts'
import type { PodsStatus } from '../observe/readiness.ts'
import { VERSION } from './version.ts'

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
  readonly #setting: KubernetesSetting
  readonly #stack = new AsyncDisposableStack()
  readonly #pods: NodePods
  readonly #folders: PodFolders
  readonly #watcher: PodWatcher
  readonly #listed = Promise.withResolvers<void>()
  #before: WatchState['kind'] = 'unknown'

  /** Begins to list. Throws an `Error` outside of a pod, or where the folder of the pods cannot be made. */
  constructor(setting: KubernetesSetting, { trustDomain }: Pick<Config, 'trustDomain'>, parts: PodParts) {
    const { clock, log, metrics, tokens } = parts
    const { nodeName, identity, selector, namespaces, sockets } = setting
    this.#parts = parts
    this.#setting = setting
    const template = parseIdentityTemplate(identity, trustDomain)
    if ('problem' in template) throw new TypeError(`Cannot use kubernetes.identity: it ${template.problem}`)
    this.#pods = new NodePods({
      nodeName,
      rules: { trustDomain, template, selector, namespaces },
      onProblem: ({ pod, reason }) =>
        log.note('warn', 'pod-refused', { pod }, `${pod ?? 'a pod'} gets no identity: ${reason}`),
    })
    this.#folders = new PodFolders({
      ...sockets,
      hasPod: uid => this.#pods.get(uid) !== undefined,
      onClosedToPod: (folder, reason) =>
        log.note('error', 'pod-folder-failed', { folder }, `a pod may not get through its folder ${folder}: ${reason}`),
      onKept: (folder, reason) =>
        log.note('warn', 'pod-folder-kept', { folder }, `the folder ${folder} of a pod that is gone stays: ${reason}`),
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

  /** Holds the identities of the pods, and serves each on its pod's socket, until this is disposed. */
  follow(union: IdentityUnion, sds: SdsServer): void {
    const { clock, log } = this.#parts
    const source = this.#stack.use(new PodIdentities(this.#pods, this.#setting.sockets))
    const follower = new SourceFollower({
      name: 'kubernetes',
      source,
      union,
      sds,
      clock,
      onError: (err, path) =>
        log.note('error', 'pod-socket-failed', { err, path }, `the socket of a pod is not served: ${path}`),
      onClosed: path => this.#folders.onClosed(path),
    })
    this.#stack.use(follower)
    void follower.opened.then(() => this.#listed.resolve())
  }

  /** Has kubelet mount the folders of pods, where the configuration asks for it. Rejects with an `SdsServerError`. */
  async serveVolumes(takeover: boolean): Promise<void> {
    const { csi, sockets, nodeName } = this.#setting
    if (!csi) return
    const { clock, log } = this.#parts
    const { CsiDriver } = await import('../csi/csi-driver.ts')
    const driver = await CsiDriver.start({
      ...csi,
      pods: this.#pods,
      clock,
      sockets,
      nodeName,
      takeover,
      version: VERSION,
      onVolume: ({ operation, uid, path, error }) =>
        error === undefined
          ? log.note(
              'info',
              `volume-${operation}ed`,
              { podUid: uid, path },
              `the volume of pod ${uid} is ${operation}ed`,
            )
          : log.note('warn', 'volume-failed', { podUid: uid, path, operation }, `the volume of pod ${uid}: ${error}`),
      onSocket: problem =>
        log.note('warn', 'csi-socket', { path: csi.socket }, `the socket of the CSI driver: ${problem}`),
    })
    this.#stack.use(driver)
  }

  /** Resolves when the sockets of the pods that were listed first are served, after 30 s in any case. */
  async opened(): Promise<void> {
    await Promise.race([this.#listed.promise, sleep(this.#parts.clock, PATIENCE_MS)])
  }

  status(): PodsStatus {
    const { state } = this.#watcher
    if (state.kind === 'watching') return { known: true, problem: undefined }
    return { known: state.kind === 'away', problem: state.error }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  #onChange(change: PodChange): void {
    this.#folders.onChange(change)
    const { kind, pod } = change
    const { uid, namespace, name, identity } = pod
    const fields = { pod: `${namespace}/${name}`, podUid: uid, identity }
    const what = kind === 'removed' ? 'is gone' : `has ${identity ?? 'no identity'}`
    this.#parts.log.note(identity === undefined ? 'debug' : 'info', `pod-${kind}`, fields, `pod ${fields.pod} ${what}`)
  }

  #onState(state: WatchState): void {
    const { log } = this.#parts
    const before = this.#before
    this.#before = state.kind
    switch (state.kind) {
      case 'unknown':
        log.note('warn', 'pods-unknown', {}, `the pods of this node are not known yet: ${state.error}`)
        return
      case 'away':
        log.note('warn', 'pods-away', {}, `the pods of this node stay as they are, and are held: ${state.error}`)
        return
      case 'watching': {
        const { known, chosen } = this.#pods.counts
        log.note('info', 'pods-known', { known, chosen }, `this node has ${known} pods, ${chosen} with an identity`)
        if (before === 'unknown') this.#folders.sweep()
      }
    }
  }
}
