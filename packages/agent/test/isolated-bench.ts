/** A CA plugin in its own process, for tests: its module, its client, and everything that it logs. */
import { writeFileSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { pluginContext, type RecordingContext } from '@livery/ca-plugins/testing'
import { type SecretEvent, SecretManager } from '@livery/core'
import type { CACapabilities, CAClient, CAContext, PluginLog, SpiffeId } from '@livery/core/plugin'
import { FakeClock, TestKeyGenerator } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { createIsolatedCAClient } from '../src/plugin/isolated-ca-client.ts'
import type { PluginModule, PluginUser } from '../src/plugin/messages.ts'
import { type PluginModuleOptions, writePluginModule } from './plugin-module.ts'

const CAPABILITIES = { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] } as const

/** A client of a plugin in its process, with everything that it logs; the test advances the clock. */
export class Bench {
  readonly folder: string
  readonly clock: FakeClock
  readonly context: RecordingContext
  readonly events: { readonly name: string; readonly event: SecretEvent }[] = []
  readonly #user: PluginUser | undefined
  #wake = Promise.withResolvers<void>()

  constructor(folder: string, user?: PluginUser) {
    this.folder = folder
    this.#user = user
    // The plugin's process has the time of the machine.
    this.clock = new FakeClock(Date.now())
    const lines: { level: keyof PluginLog; message: string }[] = []
    const line = (level: keyof PluginLog) => (message: string) => {
      lines.push({ level, message })
      const [, done] = /^it printed: once (\w+)$/.exec(message) ?? []
      if (done !== undefined) writeFileSync(join(folder, done), '')
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
    const plugin = { module: await this.write(module), name: 'acme', capabilities }
    const client = await createIsolatedCAClient(plugin, { ...this.context, ...parts }, {})
    t.after(async () => {
      const closed = client[Symbol.asyncDispose]()
      // If the test has failed, the plugin may hang: closing gives up on it then.
      await this.clock.advance(5_000)
      await closed
    })
    return client
  }

  async write(module: PluginModuleOptions = {}): Promise<PluginModule> {
    return await writePluginModule(this.folder, { ...module, ...(this.#user && { user: this.#user }) })
  }

  manage(t: TestContext, ca: CAClient): SecretManager {
    const manager = new SecretManager({
      ca,
      clock: this.clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
      random: () => 0.5,
    })
    manager.events.subscribe(({ name, event }) => {
      this.events.push({ name, event })
      this.#stir()
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
  async event<K extends SecretEvent['kind']>(
    name: SpiffeId,
    kind: K,
    count = 1,
  ): Promise<Extract<SecretEvent, { kind: K }>> {
    for (;;) {
      const found = this.events.filter(each => each.name === name && each.event.kind === kind)
      if (found.length >= count) return found[count - 1]?.event as Extract<SecretEvent, { kind: K }>
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
export async function setUp(t: TestContext, user?: PluginUser): Promise<Bench> {
  const directory = temporaryFolder(t)
  if (user) await chmod(directory, 0o755)
  return new Bench(directory, user)
}
