/** Processes that come one after the other, with one store, one CA and one clock. */
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TemporaryFolder } from '@livery/test-support'
import type { SecretManagerOptions } from '../src/secret-manager-options.ts'
import type { SpiffeId } from '../src/spiffe/spiffe-id.ts'
import { FileStore } from '../src/store/file-store.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { makeIssuer, TestCA } from '../src/testing/test-ca.ts'
import { Bench } from './manager-bench.ts'

/** One process: ends as the agent does, the manager before the store. */
export interface Run extends AsyncDisposable {
  readonly bench: Bench
  readonly store: FileStore
}

export class Restarts implements AsyncDisposable {
  readonly clock: FakeClock
  readonly ca: TestCA
  /** The key file of the store, from the next start on. */
  keyFile: string | undefined
  readonly #folder = new TemporaryFolder()

  private constructor(clock: FakeClock, ca: TestCA) {
    this.clock = clock
    this.ca = ca
  }

  static async create(): Promise<Restarts> {
    const clock = new FakeClock()
    return new Restarts(clock, await TestCA.create(clock))
  }

  /** Holds `store`, and `bootstrap` if a test makes it. */
  get path(): string {
    return this.#folder.path
  }

  get directory(): string {
    return join(this.path, 'store')
  }

  async start(options: Partial<SecretManagerOptions> = {}, bootstrap?: string): Promise<Run> {
    const { clock, directory, keyFile } = this
    const store = await FileStore.open({
      directory,
      trustDomain: 'cluster.local',
      clock,
      ...(keyFile !== undefined && { keyFile }),
      ...(bootstrap !== undefined && { bootstrap }),
    })
    const bench = await Bench.create({ store, ...options }, () => {}, this)
    const end = async () => {
      await bench[Symbol.asyncDispose]()
      await store[Symbol.asyncDispose]()
    }
    return { bench, store, [Symbol.asyncDispose]: end }
  }

  /** Runs a process that gets a certificate for each, and ends it. Gives their serial numbers. */
  async runOnce(...identities: readonly SpiffeId[]): Promise<readonly string[]> {
    await using run = await this.start()
    const items = await Promise.all(identities.map(identity => run.bench.add(identity)))
    return items.map(item => item.serialNumber)
  }

  /** Makes the CA sign by an intermediate that ends in a day, however long the leaf lasts. */
  async signByEndingIntermediate(): Promise<void> {
    const { ca, clock } = this
    const ending = await makeIssuer('CN=ending', clock.now() - 3_649 * 86_400_000, ca.newestRoot())
    ca.answer = async (request, sign) => {
      const notAfter = clock.now() + 300 * 86_400_000
      const { chain, roots = [] } = await sign(request, { issuer: ending, notAfter })
      return { chain: [...chain, ending.pem], roots }
    }
  }

  /** Writes a key file, by which the store is sealed from the next start on. */
  async seal(byte = 7): Promise<void> {
    this.keyFile = join(this.path, `key-${byte}`)
    await writeFile(this.keyFile, Buffer.alloc(32, byte), { mode: 0o400 })
  }

  /** The files with a certificate. */
  async files(): Promise<readonly string[]> {
    const names = await readdir(this.directory)
    return names.filter(name => /^[0-9a-f]{64}\.(?:pem|sealed)$/.test(name)).map(name => join(this.directory, name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#folder[Symbol.dispose]()
  }
}
