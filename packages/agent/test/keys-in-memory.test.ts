/** How many copies of a private key a running agent has in its memory, while it is in use and afterwards. */
import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { type BroughtCertificate, FakeCA } from '@livery/ca-plugins/conformance'
import { SystemClock } from '@livery/core/plugin'
import { createKeyVault } from '@livery/native-keygen'
import { TemporaryFolder } from '@livery/test-support'
import { WorkloadClient } from '../../sds-server/test/workload-client.ts'
import { until } from './envoy-bench.ts'
import { holdStream } from './held-streams.ts'
import { LiveryProcess } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'
import { copies, countKeys, noProcessMemory } from './process-memory.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

/** A second, as SECURITY.md says, and what reading hundreds of megabytes takes on a busy machine. */
const SOON_MS = 20_000

/** In use or not: a key that is sealed is not found. */
const isSealed = createKeyVault().vault.overhead > 0
const AT_REST = isSealed ? 0 : 1
/** Messages on their way to readers that do not read: that of the first, and the one that all others share. */
const IN_FLIGHT = 2

const CONFIG = {
  ca: { plugin: 'embedded', directory: 'ca' },
  identities: [WEB, API],
  sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'] }],
  admin: { address: '127.0.0.1:0' },
  removal: { grace: '100ms' },
  drain: '100ms',
}

/** An agent whose memory is read. */
class MemoryBench implements AsyncDisposable {
  readonly agent: LiveryProcess
  readonly socket: string
  readonly #directory: string
  readonly #parts: AsyncDisposableStack

  private constructor(agent: LiveryProcess, directory: string, parts: AsyncDisposableStack) {
    this.agent = agent
    this.#directory = directory
    this.socket = join(directory, 'sds.sock')
    this.#parts = parts
  }

  static async start(
    config: object = {},
    prepare: (directory: string) => Promise<void> = async () => {},
  ): Promise<MemoryBench> {
    await using parts = new AsyncDisposableStack()
    const { path } = parts.use(new TemporaryFolder())
    await prepare(path)
    writeFileSync(join(path, 'livery.yaml'), JSON.stringify({ ...CONFIG, ...config }))
    const agent = parts.use(new LiveryProcess(['run'], { cwd: path }))
    await agent.admin()
    return new MemoryBench(agent, path, parts.move())
  }

  async key(name = WEB): Promise<string> {
    const [secret] = await fetchSecrets(this.socket, [name])
    assert.match(secret?.privateKey ?? '', /^-----BEGIN PRIVATE KEY-----\n/)
    return secret?.privateKey ?? ''
  }

  /** Fails if there are still more than `most` copies of `key` when the agent has had time to wipe them. */
  async holds(key: string, most: number, when: string): Promise<void> {
    const pid = this.agent.child.pid ?? 0
    let last: unknown
    const look = async (): Promise<true | undefined> => {
      const [found] = await countKeys(pid, [key])
      last = found
      return copies(found) <= most ? true : undefined
    }
    await until(when, look, SOON_MS).catch(() =>
      assert.fail(`${when}: more than ${most} copies, ${JSON.stringify(last)}`),
    )
  }

  async count(key: string): Promise<number> {
    const [found] = await countKeys(this.agent.child.pid ?? 0, [key])
    return copies(found)
  }

  async remove(name: string): Promise<void> {
    const path = join(this.#directory, 'livery.yaml')
    writeFileSync(path, readFileSync(path, 'utf8').replace(`${JSON.stringify(name)},`, ''))
    this.agent.kill('SIGHUP')
    await this.agent.line(/"event":"withdrawn"/)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync()
  }
}

const options = { skip: noProcessMemory }
/** Without the addon, copies of WebCrypto's wait for the garbage collector. */
const sealed = { skip: noProcessMemory || (isSealed ? false : 'no addon to seal keys with') }

test('the scan finds a key that is there, in every form', options, async () => {
  const { generateKeyPairSync } = await import('node:crypto')
  const keys = [generateKeyPairSync('ec', { namedCurve: 'P-256' }), generateKeyPairSync('rsa', { modulusLength: 2048 })]
  for (const { privateKey } of keys) {
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const der = privateKey.export({ type: 'pkcs8', format: 'der' })
    // Held beyond the scan, and of a size that no other allocation takes.
    const held = [Buffer.from(pem), Buffer.from(pem, 'utf16le'), der, Buffer.from(der).reverse()]
    const [found] = await countKeys(process.pid, [pem])
    for (const form of ['text 0', 'wide text 0', 'bytes 0', 'words 0']) assert.ok((found?.[form] ?? 0) > 0, form)
    assert.ok(held.every(bytes => bytes.length > 0))
  }
})

for (const keyType of ['ecdsa-p256', 'rsa-2048'])
  test(
    `a key of ${keyType} that is in use is in memory sealed, or once, however many streams have it`,
    sealed,
    async () => {
      await using bench = await MemoryBench.start({ keyType })
      const key = await bench.key()
      await bench.holds(key, AT_REST, 'after FetchSecrets')
      for (const [method, counts] of [
        ['StreamSecrets', [1, 10, 200]],
        ['DeltaSecrets', [1, 10]],
      ] as const)
        for (const count of counts) {
          await using streams = new AsyncDisposableStack()
          for (let open = 0; open < count; open++) streams.use(await holdStream(bench.socket, WEB, { method }))
          await bench.holds(key, AT_REST, `with ${count} streams of ${method}`)
        }
      await bench.remove(WEB)
      await bench.holds(key, 0, 'after the removal')
    },
  )

test(
  'a replaced key is in memory no longer, nor the new one but sealed, with a sealed store or without',
  options,
  async () => {
    for (const store of [{}, { store: { directory: 'store', keyFile: 'store-key' } }]) {
      await using bench = await MemoryBench.start({ ttl: '4s', ...store }, async directory =>
        writeFileSync(join(directory, 'store-key'), Buffer.alloc(32, 7), { mode: 0o600 }),
      )
      using stream = await openStream(bench.socket, [WEB])
      const first = stream.secrets[0]?.privateKey ?? ''
      await stream.answered(2)
      await bench.holds(first, 0, 'after the rotation')
      await bench.remove(WEB)
      for (const [secret] of stream.answers) await bench.holds(secret?.privateKey ?? '', 0, 'after the removal')
    }
  },
)

test('a key that was sent by the Workload API is in memory no more often than before', options, async () => {
  await using bench = await MemoryBench.start({ identities: [{ id: WEB, socket: 'web.sock' }, API] })
  const key = await bench.key()
  // Without the addon, copies of WebCrypto's wait for the garbage collector.
  const before = isSealed ? AT_REST : await bench.count(key)
  using client = new WorkloadClient(join(dirname(bench.socket), 'web.sock'))
  const streams = Array.from({ length: 5 }, () => client.svids())
  const responses = await Promise.all(streams.map(stream => stream.next()))
  for (const { svids } of responses) {
    const sent = createPrivateKey({ key: svids[0]?.x509SvidKey ?? Buffer.alloc(0), format: 'der', type: 'pkcs8' })
    assert.equal(sent.export({ type: 'pkcs8', format: 'pem' }), key)
  }
  await bench.holds(key, before, 'with five streams of the Workload API')
})

test('messages that twenty readers do not read are two copies, which go with the streams', sealed, async () => {
  await using bench = await MemoryBench.start()
  const key = await bench.key()
  await bench.holds(key, AT_REST, 'at rest')
  {
    await using streams = new AsyncDisposableStack()
    for (let open = 0; open < 20; open++) streams.use(await holdStream(bench.socket, WEB, { window: 0 }))
    await bench.holds(key, AT_REST + IN_FLIGHT, 'with twenty that do not read')
    assert.equal(await bench.count(key), AT_REST + IN_FLIGHT)
    await bench.remove(WEB)
    await bench.holds(key, IN_FLIGHT, 'after the removal, with twenty that do not read')
  }
  await bench.holds(key, 0, 'when they are gone')
})

/** The pairs of a source for WEB and API, from a CA of this process. */
async function bring(): Promise<{ readonly sets: readonly BroughtCertificate[]; readonly keys: readonly string[] }> {
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const sets = [await ca.bring(WEB, 3_600), await ca.bring(API, 3_600)]
  return { sets, keys: sets.map(({ privateKey }) => Buffer.from(privateKey).toString()) }
}

test(
  'keys that file-mount reads are in memory sealed, also while their files are looked at, and go',
  sealed,
  async () => {
    const { sets, keys } = await bring()
    const write = async (directory: string): Promise<void> => {
      for (const [index, name] of ['web', 'api'].entries()) {
        const folder = join(directory, 'ids', name)
        mkdirSync(folder, { recursive: true })
        const { chain = [], roots = [], privateKey = '' } = sets[index] ?? {}
        writeFileSync(join(folder, 'root-cert.pem'), roots.join(''))
        writeFileSync(join(folder, 'key.pem'), privateKey, { mode: 0o600 })
        writeFileSync(join(folder, 'cert-chain.pem'), chain.join(''))
      }
    }
    await using bench = await MemoryBench.start({ ca: { plugin: 'file-mount', folder: 'ids/{serviceAccount}' } }, write)
    const key = keys[0] ?? ''
    assert.equal(await bench.key(), key)
    await bench.holds(key, AT_REST, 'after FetchSecrets')
    await bench.remove(WEB)
    await bench.holds(key, 0, 'after the removal')
  },
)

/** Node copies what it reads from a socket, and frees the first copy without wiping it. */
const FREED = 1

test('a key from a plugin in its own process is in memory sealed, but for what Node has freed', sealed, async () => {
  const { sets, keys } = await bring()
  await using bench = await MemoryBench.start({ ca: { plugin: './acme.mjs' } }, async directory => {
    const { chain = [], roots = [] } = sets[0] ?? {}
    writeFileSync(join(directory, 'key.pem'), keys[0] ?? '', { mode: 0o600 })
    await writePluginModule(directory, {
      fields: "capabilities: { roots: 'none', ttl: 'ignored', san: 'csr', keyTypes: [], bringsKey: true },",
      onIssue: `const { readFileSync } = await import('node:fs')
        if (!request.identity.endsWith('/web')) throw new CAError('denied', 'not here')
        const privateKey = readFileSync(folder + '/key.pem')
        return { chain: ${JSON.stringify(chain)}, roots: ${JSON.stringify(roots)}, privateKey }`,
    })
  })
  const key = keys[0] ?? ''
  assert.equal(await bench.key(), key)
  await bench.holds(key, AT_REST + FREED, 'after FetchSecrets')
  await bench.remove(WEB)
  await bench.holds(key, FREED, 'after the removal')
})
