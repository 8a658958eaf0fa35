/** The directory of callers for a node's pods: a process, and its connection, belongs to the pod of its control group. */
import { Events, type PeerCredentials } from '@livery/core'
import type { CallerDirectory, CallerFacts, Identification } from '@livery/sds-server'
import type { Pod, PodTable } from './pod.ts'
import { findPod } from './pod-cgroup.ts'

export class PodCallers implements CallerDirectory, Disposable {
  readonly changes = new Events<string>()
  readonly #pods: PodTable
  readonly #readPeerCgroups: (descriptor: number) => string
  readonly #roots: readonly string[]
  readonly #facts = new WeakMap<Pod, CallerFacts>()
  readonly #subscription: Disposable

  /**
   * `readPeerCgroups`: reads `/proc/PID/cgroup` of the process that opened a connection: `@livery/native-keygen`.
   * `roots`: the roots of kubelet's control groups, see `findPod`.
   */
  constructor(pods: PodTable, readPeerCgroups: (descriptor: number) => string, roots: readonly string[]) {
    this.#pods = pods
    this.#readPeerCgroups = readPeerCgroups
    this.#roots = roots
    this.#subscription = pods.changes.subscribe(({ pod }) => this.changes.emit(subjectOf(pod.uid)))
  }

  identifyCaller({ pid }: PeerCredentials, descriptor: number): Identification {
    try {
      const found = findPod(this.#readPeerCgroups(descriptor), this.#roots)
      return 'uid' in found ? { subject: subjectOf(found.uid) } : { problem: `process ${pid}: ${found.problem}` }
    } catch (error) {
      return { problem: `process ${pid}: ${describeFailure(error)}` }
    }
  }

  factsOf(subject: string): CallerFacts | undefined {
    const pod = this.#pods.get(subject.slice(PREFIX.length))
    if (!pod) return undefined
    const present = this.#facts.get(pod)
    if (present) return present
    const facts = { selectors: selectorsOf(pod), identity: pod.identity, pod: pod.uid }
    this.#facts.set(pod, facts)
    return facts
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
  }
}

const PREFIX = 'pod '

function subjectOf(uid: string): string {
  return `${PREFIX}${uid}`
}

/** The namespace and name of the pod that a subject stands for; `undefined` once it is gone. */
export function podNameOf(subject: string, pods: PodTable): string | undefined {
  const pod = subject.startsWith(PREFIX) ? pods.get(subject.slice(PREFIX.length)) : undefined
  return pod && `${pod.namespace}/${pod.name}`
}

/** The selectors that `callers` of a socket can require. */
function selectorsOf({ namespace, serviceAccount, labels }: Pod): ReadonlySet<string> {
  const ofLabels = Array.from(labels, ([key, value]) => `label:${key}=${value}`)
  return new Set([`ns:${namespace}`, `sa:${serviceAccount}`, ...ofLabels])
}

const REMEDIES: Readonly<Record<string, string>> = {
  OTHER_PID_NAMESPACE: 'run the agent with hostPID: true',
  EACCES: 'mount /proc without hidepid, or run the agent as root',
  EPERM: 'mount /proc without hidepid, or run the agent as root',
  ENOENT: 'mount /proc without hidepid, or run the agent as root',
  ENOSYS: 'identifying callers by their pods needs Linux 5.3',
  GONE: 'a process that hands its connection on has to live as long as it takes to accept it',
  ENAMETOOLONG: 'its control groups are nested too deeply',
}

function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const remedy = 'code' in error && typeof error.code === 'string' ? REMEDIES[error.code] : undefined
  return remedy === undefined ? error.message : `${error.message}; ${remedy}`
}
