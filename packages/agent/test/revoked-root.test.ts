/** A CA that moves its identities off a root and revokes it: clients of the Workload API follow without time passing. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { spiffe } from '@livery/ca-plugins/spiffe'
import { pluginContext } from '@livery/ca-plugins/testing'
import { SecretManager } from '@livery/core'
import { FakeClock, TestKeyGenerator } from '@livery/core/testing'
import { createSdsServer } from '@livery/sds-server'
import { temporaryFolder } from '@livery/test-support'
import { svidsOf, WorkloadApiStandIn } from '../../ca-plugins/test/workload-api-stand-in.ts'
import { certificatesOf, WorkloadClient } from '../../sds-server/test/workload-client.ts'

const names = (['web', 'api', 'db'] as const).map(account => `spiffe://cluster.local/ns/default/sa/${account}` as const)
const SETTLE_MS = 10_000

/** What a client has: the root that its certificate is under, and the roots that it trusts, by their names. */
interface Held {
  readonly issuer: string
  readonly roots: readonly string[]
}

/** The agent's three clients, each on the socket of its own identity, with SPIRE's Workload API as the CA. */
class Node implements AsyncDisposable {
  readonly held = new Map<string, Held>()
  readonly #parts = new AsyncDisposableStack()
  #wake = Promise.withResolvers<void>()

  static async start(folder: string, address: string, clock: FakeClock): Promise<Node> {
    const node = new Node()
    const parts = node.#parts
    const ca = parts.use(await spiffe.create(pluginContext({ clock }), { address }))
    const source = parts.use(
      new SecretManager({
        ca,
        clock,
        revokesMissingRoots: spiffe.capabilities.revokesMissingRoots === true,
        keyGenerator: new TestKeyGenerator(),
        trustDomain: 'cluster.local',
      }),
    )
    for (const identity of names) source.add(identity)
    const pathOf = (index: number) => join(folder, `${index}.sock`)
    const sockets = names.map((identity, index) => ({ path: pathOf(index), identity, workloadApi: true }))
    parts.use(await createSdsServer({ clock, source, sockets, drainMs: 0 }))
    for (const [index, name] of names.entries()) void node.#follow(name, parts.use(new WorkloadClient(pathOf(index))))
    return node
  }

  async until(is: (held: Held) => boolean): Promise<void> {
    while (this.held.size < names.length || ![...this.held.values()].every(is)) await this.#wake.promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts[Symbol.asyncDispose]()
  }

  async #follow(name: string, client: WorkloadClient): Promise<void> {
    const stream = client.svids()
    this.#parts.defer(() => stream.cancel())
    for (;;) {
      const response = await stream.next().catch(() => undefined)
      if (!response) return
      const [svid] = response.svids
      assert.ok(svid)
      this.held.set(name, {
        issuer: certificatesOf(svid.x509Svid).at(-1)?.issuer ?? '',
        roots: certificatesOf(svid.bundle).map(({ subject }) => subject),
      })
      this.#wake.resolve()
      this.#wake = Promise.withResolvers()
    }
  }
}

test('clients of the Workload API move off a root as soon as the CA does, and it is gone as soon as the CA revokes it', async t => {
  const folder = temporaryFolder(t)
  await using server = await WorkloadApiStandIn.start(join(folder, 'workload.sock'))
  const clock = new FakeClock()
  using ca = await FakeCA.create({ clock })
  const give = async (svids?: Awaited<ReturnType<typeof svidsOf>>) => {
    const given = svids ?? (await svidsOf(ca, names))
    server.give(given, { 'cluster.local': ca.trustBundle() })
    return given
  }
  const before = await give()
  await using node = await Node.start(folder, server.address, clock)
  const nameOf = (pem: string | undefined) => new X509Certificate(pem ?? '').subject
  const [old = ''] = ca.trustBundle().map(nameOf)
  await node.until(({ issuer }) => issuer === old)

  await ca.addRoot()
  await give(before.map(svid => ({ ...svid, roots: ca.trustBundle() })))
  await node.until(({ roots }) => roots.length === 2)
  await clock.advance(SETTLE_MS)

  // As SPIRE with a tainted root: it stays in the bundle, and every identity gets a certificate under another.
  await ca.switchRoot()
  await give()
  await node.until(({ issuer }) => issuer !== old)

  await ca.dropOldRoots()
  await give()
  await node.until(({ roots }) => !roots.includes(old))
})
