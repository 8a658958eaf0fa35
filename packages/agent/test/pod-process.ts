/** A process of a pod: it asks for secrets when it is asked to, in the control group in which it was put. `StartedPod` starts one. */
import { type ChildProcess, type ForkOptions, fork } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { enter } from './control-groups.ts'
import { fetchSecrets } from './sds-client.ts'

const NODE_FLAGS = ['--conditions=@livery/source']

/** The identity under each name that was given, or how the call failed. */
type PodAnswer = { readonly identities: Readonly<Record<string, string>> } | { readonly failure: string }

interface PodOrder {
  readonly socket: string
  readonly names: readonly string[]
}

export class StartedPod implements AsyncDisposable {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  /** In `groups`, one per hierarchy, with the network of the node. */
  static start(...groups: readonly string[]): Promise<StartedPod> {
    return StartedPod.#start({ execArgv: NODE_FLAGS }, groups)
  }

  /** As a runtime starts a pod without `hostNetwork`; needs root and unshare. */
  static startWithOwnNetwork(...groups: readonly string[]): Promise<StartedPod> {
    return StartedPod.#start({ execPath: 'unshare', execArgv: ['--net', process.execPath, ...NODE_FLAGS] }, groups)
  }

  static async #start(options: ForkOptions, groups: readonly string[]): Promise<StartedPod> {
    const child = fork(fileURLToPath(import.meta.url), ['pod'], options)
    await once(child, 'message')
    const pod = new StartedPod(child)
    for (const group of groups) enter(group, pod.pid)
    return pod
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** By a new connection. */
  async ask(socket: string, ...names: readonly string[]): Promise<PodAnswer> {
    this.#child.send({ socket, names } satisfies PodOrder)
    const [answer] = await once(this.#child, 'message')
    return answer
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}

async function answer({ socket, names }: PodOrder): Promise<PodAnswer> {
  try {
    const secrets = await fetchSecrets(socket, names)
    return { identities: Object.fromEntries(secrets.map(each => [each.name, identityIn(each.certificateChain)])) }
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) }
  }
}

function identityIn(chain: string): string {
  return chain === '' ? 'roots' : (new X509Certificate(chain).subjectAltName ?? '').replace('URI:', '')
}

if (process.argv[2] === 'pod' && process.send) {
  process.on('message', async (order: PodOrder) => void process.send?.(await answer(order)))
  process.send('started')
}
