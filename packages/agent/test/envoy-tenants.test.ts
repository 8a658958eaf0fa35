/** deploy/envoy/tenants.yaml: a real Envoy that presents the identity of its tenant on each connection, over one socket, in both protocols. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { deployed, Envoy, FIVE_REQUESTS_PER_CONNECTION, get, noEnvoySince, startAgent, until } from './envoy-bench.ts'
import { API } from './envoy-rotation.ts'

/** What api answers, or the tenants' Envoy in its place. */
interface Reply {
  readonly status: number | undefined
  readonly caller: unknown
  readonly serial: unknown
  readonly body: string
}

const tenant = (name: string) => `spiffe://cluster.local/ns/tenants/sa/${name}`

function call(port: number, identity?: string): Promise<Reply> {
  const headers = identity === undefined ? {} : { 'x-tenant': identity }
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, headers, agent: false }, response => {
      const { statusCode: status, headers: received } = response
      let body = ''
      response.setEncoding('utf8').on('data', text => {
        body += text
      })
      response.on('end', () =>
        resolve({ status, caller: received['x-caller'], serial: received['x-caller-serial'], body }),
      )
    })
    sent.on('error', reject).end()
  })
}

const parts = new AsyncDisposableStack()
after(() => parts.disposeAsync())

async function start() {
  const { path: folder } = parts.use(new TemporaryFolder())
  const agent = parts.use(
    await startAgent(folder, {
      ca: { plugin: 'embedded' },
      ttl: '6s',
      identities: [{ id: API, socket: 'run/api.sock' }],
      sockets: [{ path: 'run/tenants.sock', allow: [tenant('*')], onDemand: true }],
      sds: { refusedNames: 'invalidate' },
      idle: { after: '1s' },
    }),
  )
  const ports = new Map([
    [15443, await freePort()],
    [19001, await freePort()],
  ])
  const api = parts.use(
    await Envoy.start(folder, 'api', await deployed('api', { socket: join(folder, 'run/api.sock'), ports })),
  )
  await api.live()
  return { folder, agent, ports }
}

const skip = noEnvoySince(38)
const bench = skip ? undefined : await start()

for (const delta of [false, true])
  test(`each connection has the identity of its tenant (${delta ? 'Delta' : 'state of the world'})`, {
    skip,
  }, async () => {
    assert.ok(bench)
    const { folder, agent } = bench
    const [port, adminPort] = [await freePort(), await freePort()]
    const ports = new Map([...bench.ports, [15003, port], [19003, adminPort]])
    const config = await deployed('tenants', { socket: join(folder, 'run/tenants.sock'), ports, delta })
    Object.assign(config['static_resources']?.['clusters']?.[0] ?? {}, {
      typed_extension_protocol_options: FIVE_REQUESTS_PER_CONNECTION,
    })
    const envoy = await Envoy.start(folder, `tenants-${delta}`, config)
    try {
      await envoy.live()
      const [a, b, c] = [tenant('a'), tenant('b'), tenant('c')]
      // One tenant is held, and a connection without a tenant must not be its connection.
      const first = await call(port, a)
      assert.deepEqual([first.status, first.caller], [200, a])
      for (const identity of [undefined, 'spiffe://cluster.local/ns/other/sa/a', tenant('a/b'), 'nonsense']) {
        const { status, caller, body } = await call(port, identity)
        assert.deepEqual([status, caller], [503, undefined])
        // The handshake fails: otherwise it would be the time of the connection that ends it.
        assert.match(body, /local connection failure/)
      }
      const wanted = Array.from({ length: 30 }, (_, index) => [a, b, c][index % 3])
      const replies = await Promise.all(wanted.map(identity => call(port, identity)))
      assert.deepEqual(
        replies.map(({ caller }) => caller),
        wanted,
      )
      await until('the certificate of a tenant is renewed while it calls', async () => {
        const { status, serial } = await call(port, a)
        return status !== 200 || serial !== first.serial ? { status } : undefined
      }).then(({ status }) => assert.equal(status, 200))
    } finally {
      await envoy[Symbol.asyncDispose]()
    }
    await until('the identities of tenants that nobody streams are dropped', async () => {
      const { body } = await get(agent.adminPort, '/metrics')
      return Number(/withdrawn_total\{reason="idle"\} (\d+)/.exec(body)?.[1]) >= (delta ? 6 : 3) || undefined
    })
  })
