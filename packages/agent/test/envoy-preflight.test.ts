/** A real Envoy holds to the addon's verdict on chains that are good by RFC 5280. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { createServer } from 'node:https'
import { test } from 'node:test'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { type IssuedPair, PairIssuer } from '@livery/core/testing'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import { freePort, listening, portOf, temporaryFolder } from '@livery/test-support'
import { Envoy, get, noEnvoy, type Tree, until } from './envoy-bench.ts'

const identity: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const skip = noEnvoy || (nativeCertificateVerifier ? false : 'without the addon nobody asks for the verdict')

/** A server with this certificate, until it is disposed. */
async function serve({ chain, key }: IssuedPair): Promise<{ readonly port: number } & Disposable> {
  const server = await listening(createServer({ cert: chain.join(''), key }, (_, response) => response.end('hello')))
  return {
    port: portOf(server),
    [Symbol.dispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

interface Bundle {
  readonly name: string
  readonly roots: readonly string[]
}

/** An Envoy that calls the server on `port` with each of these bundles: the path is the name of the bundle. */
function configOf(
  bundles: readonly Bundle[],
  port: number,
  ports: { readonly plain: number; readonly admin: number },
): Tree {
  const type = (name: string) => ({ '@type': `type.googleapis.com/envoy.extensions.${name}` })
  const at = (port_value: number) => ({ address: { socket_address: { address: '127.0.0.1', port_value } } })
  const routes = bundles.map(({ name }) => ({ match: { path: `/${name}` }, route: { cluster: name } }))
  const connectionManager = {
    ...type('filters.network.http_connection_manager.v3.HttpConnectionManager'),
    stat_prefix: 'plain',
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes }] },
    http_filters: [{ name: 'envoy.filters.http.router', typed_config: type('filters.http.router.v3.Router') }],
  }
  const filters = [{ name: 'envoy.filters.network.http_connection_manager', typed_config: connectionManager }]
  const clusters = bundles.map(({ name, roots }) => ({
    name,
    type: 'STATIC',
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [{ endpoint: at(port) }] }] },
    transport_socket: {
      name: 'envoy.transport_sockets.tls',
      typed_config: {
        ...type('transport_sockets.tls.v3.UpstreamTlsContext'),
        common_tls_context: { validation_context: { trusted_ca: { inline_string: roots.join('') } } },
      },
    },
  }))
  const listeners = [{ name: 'plain', ...at(ports.plain), filter_chains: [{ filters }] }]
  return JSON.parse(JSON.stringify({ admin: at(ports.admin), static_resources: { listeners, clusters } })) as Tree
}

/** The addon's verdict on the pair with each bundle. */
function verdicts({ chain, key }: IssuedPair, bundles: readonly Bundle[]): readonly (string | undefined)[] {
  return bundles.map(({ roots }) => {
    const anchors = roots.map(pem => new X509Certificate(pem))
    const privateKeyPem = Buffer.from(key)
    return nativeCertificateVerifier?.verify(chain, { identity, key: { privateKeyPem }, anchors, now: Date.now() })
      .clientRefusal
  })
}

test('Envoy takes what the addon says it takes, and refuses two roots of one name in one of their orders', {
  skip,
}, async t => {
  const folder = temporaryFolder(t)
  using clock = new SystemClock()
  const [issuer, namesake] = [await PairIssuer.create(clock), await PairIssuer.create(clock)]
  const pair = await issuer.issue(identity)
  const bundles: readonly Bundle[] = [
    { name: 'one', roots: [issuer.root] },
    { name: 'old-first', roots: [namesake.root, issuer.root] },
    { name: 'new-first', roots: [issuer.root, namesake.root] },
  ]
  const said = verdicts(pair, bundles)
  assert.equal(said[0], undefined)
  assert.ok(said[1] !== undefined && said[2] !== undefined)

  using server = await serve(pair)
  const ports = { plain: await freePort(), admin: await freePort() }
  await using envoy = await Envoy.start(folder, 'client', configOf(bundles, server.port, ports))
  await envoy.live()
  const ask = (name: string) =>
    until(`an answer with ${name}`, async () => {
      const { status } = await get(ports.plain, `/${name}`)
      return [200, 503].includes(status) ? status : undefined
    })
  assert.equal(await ask('one'), 200)
  const both = [await ask('old-first'), await ask('new-first')]
  assert.ok(both.includes(503), `answers with two roots of one name: ${both}`)
  const failures = await Promise.all(bundles.map(({ name }) => envoy.stat(`cluster.${name}.ssl.fail_verify_error`)))
  assert.equal(failures[0], 0)
  assert.ok(failures.some(count => count > 0))
})
