/** Vault behind the agent and two Envoys: a real one, or OpenBao, where `LIVERY_VAULT` names its binary, and always a stand-in that signs. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { SystemClock } from '@livery/core/plugin'
import { enableKubernetes, noVault, startVaultServer } from '../../ca-plugins/test/vault-process.ts'
import { startVault } from '../../ca-plugins/test/vault-stand-in.ts'
import { noEnvoy } from './envoy-bench.ts'
import { rotateUnderTraffic } from './envoy-rotation.ts'

/** The configuration of the plugin, and its files in `folder`. */
async function configure(folder: string, address: string, rootPem: string, jwt: string): Promise<object> {
  await writeFile(join(folder, 'root.pem'), rootPem)
  await writeFile(join(folder, 'token'), `${jwt}\n`)
  const kubernetes = { role: 'livery' }
  return { plugin: 'vault', address, rootCert: 'root.pem', role: 'workload', tokenFile: 'token', kubernetes }
}

test('two Envoys do mutual TLS with certificates of a stand-in for Vault while they rotate and its logins end, and no request fails', {
  skip: noEnvoy,
}, async () => {
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const tls = await ca.serverCertificate()
  const kubernetes = { jwts: new Set(['service-account-token']), leaseSeconds: 18 }
  const { server, leases } = await startVault({ ca, clock, kubernetes, tls })
  await using _server = server
  await rotateUnderTraffic({
    ca: folder => configure(folder, server.address, ca.trustBundle().join(''), 'service-account-token'),
    between: async () => leases.clear(),
  })
  const logins = server.calls.filter(({ path }) => path === '/v1/auth/kubernetes/login').length
  assert.ok(logins >= 2 && logins < ca.requests, `${logins} logins for ${ca.requests} certificates`)
})

test('two Envoys do mutual TLS with certificates of a real server while they rotate and its logins end, and no request fails', {
  skip: noEnvoy || noVault,
}, async () => {
  await using server = await startVaultServer()
  await using kubernetes = await enableKubernetes(server, '1m')
  await rotateUnderTraffic({
    ca: folder => configure(folder, server.address, server.rootPem, kubernetes.jwt),
    between: async () => void (await server.call('POST', 'sys/leases/revoke-prefix/auth/kubernetes/login')),
  })
})
