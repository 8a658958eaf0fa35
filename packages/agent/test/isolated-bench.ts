/** A CA plugin in a thread of its own, for tests: its module, its client, and everything that it says. */
import type { TestContext } from 'node:test'
import { pluginContext, type RecordingContext } from '@livery/ca-plugins/testing'
import {
  type CACapabilities,
  type CAClient,
  type CAContext,
  type LedgerEvent,
  type PluginLog,
  SecretManager,
  type SpiffeId,
} from '@livery/core'
import { FakeClock, TestKeyGenerator } from '@livery/core/testing'
import { createIsolatedCAClient } from '../src/plugin-worker/isolated-ca-client.ts'
import { makeDirectory } from './livery-process.ts'
import { type PluginModuleOptions, writePluginModule } from './plugin-module.ts'

const CAPABILITIES = { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] } as const

/** A client of a plugin in its thread, with everything that it says; the clock moves when told. */
export class Bench {
  readonly folder: string
  readonly clock: FakeClock
  readonly context: RecordingContext
  readonly events: { readonly name: string; readonly event: LedgerEvent }[] = []
  #wake = Promise.withResolvers<void>()

  constructor(folder: string) {
    this.folder = folder
    // The plugin's thread has the time of the machine.
    this.clock = new FakeClock(Date.now())
    const lines: { level: keyof PluginLog; message: string }[] = []
    const line = (level: keyof PluginLog) => (message: string) => {
      lines.push({ level, message })
      this.#stir()
    }
    const log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
    this.context = { ...pluginContext({ clock: this.clock }), log, lines }
  }

  async open(
    t: TestContext,
    module: PluginModuleOptions = {},
    parts: Partial<CAContext> = {},
    more: Partial<CACapabilities> = {},
  ): Promise<CAClient> {
    const capabilities = { ...CAPABILITIES, ...more }
    const plugin = { module: await writePluginModule(this.folder, module), name: 'acme', capabilities }
    const client = await createIsolatedCAClient(plugin, { ...this.context, ...parts }, {})
    t.after(async () => {
      const closed = client[Symbol.asyncDispose]()
      // If the test has failed, the plugin may hang: closing gives up on it then.
      await this.clock.advance(5_000)
      await closed
    })
    return client
  }

  manage(t: TestContext, ca: CAClient): SecretManager {
    const manager = new SecretManager({
      ca,
      clock: this.clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
      random: () => 0.5,
      observe: (name, { event }) => {
        this.events.push({ name, event })
        this.#stir()
      },
    })
    t.after(() => manager[Symbol.asyncDispose]())
    return manager
  }

  /** The first line that matches. */
  async line(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.context.lines.find(({ message }) => pattern.test(message))
      if (found) return found.message
      await this.#wake.promise
    }
  }

  /** The newest event of the kind, once there have been so many. */
  async event<K extends LedgerEvent['kind']>(
    name: SpiffeId,
    kind: K,
    count = 1,
  ): Promise<Extract<LedgerEvent, { kind: K }>> {
    for (;;) {
      const found = this.events.filter(each => each.name === name && each.event.kind === kind)
      if (found.length >= count) return found[count - 1]?.event as Extract<LedgerEvent, { kind: K }>
      await this.#wake.promise
    }
  }

  errors(): readonly string[] {
    return this.context.lines.filter(({ level }) => level === 'error').map(({ message }) => message)
  }

  #stir(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }
}

/** A bench on a folder that goes away with the test. */
export async function setUp(t: TestContext): Promise<Bench> {
  const directory = await makeDirectory()
  t.after(() => directory[Symbol.asyncDispose]())
  return new Bench(directory.path)
}
