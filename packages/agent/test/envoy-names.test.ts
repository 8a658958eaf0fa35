/** A gateway: the listener of a real Envoy, whose clients know no SPIFFE and check the name of the host. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { freePort, temporaryFolder } from '@livery/test-support'
import { deployed, Envoy, livery, noEnvoy, startAgent, type Tree, until } from './envoy-bench.ts'

const GATEWAY = 'spiffe://cluster.local/ns/edge/sa/gateway'

/** The listener of deploy/envoy/api.yaml, for clients without a certificate. */
async function gateway(socket: string, port: number): Promise<Tree> {
  const ports = new Map([
    [15443, port],
    [19001, await freePort()],
  ])
  const config = await deployed('api', { socket, ports })
  const context = config['static_resources']?.['listeners']?.[0]?.['filter_chains']?.[0]?.['transport_socket']
  const tls = context?.['typed_config']
  const common = tls?.['common_tls_context']
  assert.ok(tls && common)
  const { combined_validation_context: _, ...certificates } = common
  Object.assign(tls, { require_client_certificate: false, common_tls_context: certificates })
  return config
}

/** The names and key of the certificate that a client finds which asks for `host` and checks it; rejects with the client's refusal. */
function visit(port: number, host: string, ca: Buffer): Promise<{ readonly names: string; readonly bits: number }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername: host, ca }, () => {
      const { subjectaltname = '', bits = 0 } = socket.getPeerCertificate()
      socket.destroy()
      resolve({ names: subjectaltname, bits })
    })
    socket.on('error', reject)
  })
}

test("a gateway's listener is known by its DNS name and a wildcard, and by others after a reload", {
  skip: noEnvoy,
}, async t => {
  const folder = temporaryFolder(t)
  const config = (dnsNames: readonly string[]) => ({
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id: GATEWAY, socket: 'gateway.sock', keyType: 'ecdsa-p384', ttl: '1h', dnsNames }],
  })
  await using agent = await startAgent(folder, config(['Shop.example', '*.shop.example']))
  const port = await freePort()
  await using envoy = await Envoy.start(folder, 'gateway', await gateway(join(folder, 'gateway.sock'), port))
  await envoy.live()
  const ca = await readFile(join(folder, 'ca', 'root.pem'))
  const found = await until('the gateway serves', () => visit(port, 'shop.example', ca))
  assert.deepEqual(found, { names: `URI:${GATEWAY}, DNS:shop.example, DNS:*.shop.example`, bits: 384 })
  await visit(port, 'cart.shop.example', ca)
  for (const host of ['a.cart.shop.example', 'other.example'])
    await assert.rejects(visit(port, host, ca), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })

  const file = join(folder, 'livery.yaml')
  const admin = { address: `127.0.0.1:${agent.adminPort}` }
  await writeFile(file, JSON.stringify({ ...config(['other.example']), admin }))
  await until('the gateway has its new name', () => visit(port, 'other.example', ca))
  await assert.rejects(visit(port, 'shop.example', ca), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })

  await writeFile(file, JSON.stringify({ ...config(['not_a_name']), admin }))
  assert.match(
    await livery(folder, 'check-config', '--config', file),
    /identities\[0\]\.dnsNames\[0\].*not a DNS name/s,
  )
  await visit(port, 'other.example', ca)
})
