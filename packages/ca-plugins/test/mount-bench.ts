/** The client of the `file-mount` plugin over folders of a test, on a clock that the test advances. */
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { type CAChange, type IssuedCertificate, parseSpiffeId, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { TemporaryFolder } from '@livery/test-support'
import { FakeCA } from '../src/conformance/index.ts'
import { FileMountClient } from '../src/plugins/file-mount/client.ts'
import { type FileMountConfig, mountOf } from '../src/plugins/file-mount/config.ts'
import { pluginContext } from '../src/testing/plugin-context.ts'

/** From a hint of the operating system to the look, and from the look to the word of new roots. */
const HINT_MS = 100

export function identityOf(name: string): SpiffeId {
  return parseSpiffeId(`spiffe://cluster.local/ns/default/sa/${name}`)
}

type MountOptions = Pick<FileMountConfig, 'rootsFor'>

export class MountBench implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly context = pluginContext({ clock: this.clock })
  readonly client: FileMountClient
  readonly ca: FakeCA
  readonly #changes: CAChange[] = []
  readonly #folder = new TemporaryFolder()

  private constructor(ca: FakeCA, roots: string, rootsFor: MountOptions['rootsFor']) {
    this.ca = ca
    const folder = join(this.folder, '{name}')
    const mount = mountOf({ layout: 'istio', folder, roots, ...(rootsFor && { rootsFor }) })
    this.client = new FileMountClient(this.context, mount)
    this.client.subscribe(change => this.#changes.push(change))
  }

  /** As in the configuration. Default: folders that speak for the trust domain. */
  static async create(
    roots = 'root-cert.pem',
    rootsFor: MountOptions['rootsFor'] = 'trust-domain',
  ): Promise<MountBench> {
    return new MountBench(await FakeCA.create({ clock: new FakeClock() }), roots, rootsFor)
  }

  get folder(): string {
    return this.#folder.path
  }

  folderOf(name: string): string {
    return join(this.folder, name)
  }

  issue(name: string, signal = new AbortController().signal): Promise<IssuedCertificate> {
    const csr = async () => {
      throw new Error('the plugin asked for a CSR')
    }
    return this.client.issue({ identity: identityOf(name), ttlSeconds: 3_600, signal, csr })
  }

  trustBundle(): Promise<readonly string[]> {
    const bundle = this.client.trustBundle?.({ signal: new AbortController().signal })
    return bundle ?? Promise.reject(new Error('no file speaks for the trust domain'))
  }

  /** The reports since the last call: `roots`, and the names of identities. */
  notified(): readonly string[] {
    return this.#changes.splice(0).map(change => (change.kind === 'roots' ? 'roots' : namesOf(change)))
  }

  /** Runs what follows events of the operating system until `holds`; the time of a poll does not come. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      if (this.clock.deadlines().some(time => time <= this.clock.now() + HINT_MS)) await this.clock.advance(HINT_MS)
      await setImmediate()
    }
  }

  /** Resolves once these were reported, in any order. */
  async untilTold(...expected: readonly string[]): Promise<void> {
    const notified: string[] = []
    await this.until(() => {
      notified.push(...this.notified())
      return notified.length >= expected.length
    })
    if (notified.sort().join() !== expected.toSorted().join()) throw new Error(`notified of ${notified.join(', ')}`)
  }

  /** Lets the time pass for which a call waits for files to be whole. */
  async waitInVain(): Promise<void> {
    for (const pauseMs of [50, 100, 200, 400]) {
      await this.clock.waitForDeadline(time => time === this.clock.now() + pauseMs)
      await this.clock.advance(pauseMs)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]()
    this.ca[Symbol.dispose]()
    this.#folder[Symbol.dispose]()
    if (this.clock.deadlines().length > 0) throw new Error('something still waits by the clock')
  }
}

function namesOf({ identities = [] }: Extract<CAChange, { kind: 'certificates' }>): string {
  return identities.map(identity => identity.slice(identity.lastIndexOf('/') + 1)).join('+')
}
