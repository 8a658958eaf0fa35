/** step-ca behind the agent and two Envoys: the real one where `LIVERY_STEP_CA` names its binary, and always a stand-in that signs. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { SystemClock } from '@livery/core/plugin'
import { noStepCa, startStepCaServer } from '../../ca-plugins/test/step-ca-process.ts'
import { encrypted, PROVISIONER, provisionerPair, startStepCa } from '../../ca-plugins/test/step-ca-stand-in.ts'
import { noEnvoy } from './envoy-bench.ts'
import { rotateUnderTraffic } from './envoy-rotation.ts'

const { privateJwk, publicJwk } = await provisionerPair()

/** The configuration of the plugin, and its files in `folder`; the key has a password. */
async function configure(folder: string, address: string, rootPem: string): Promise<object> {
  await writeFile(join(folder, 'root.pem'), rootPem)
  await writeFile(join(folder, 'provisioner.key'), await encrypted(privateJwk, 'secret', 'json'))
  await writeFile(join(folder, 'provisioner.password'), 'secret\n')
  return {
    plugin: 'step-ca',
    address,
    rootCert: 'root.pem',
    provisioner: PROVISIONER,
    jwkFile: 'provisioner.key',
    passwordFile: 'provisioner.password',
  }
}

test('two Envoys do mutual TLS with certificates of a stand-in for step-ca while they rotate, and no request fails', {
  skip: noEnvoy,
}, async () => {
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  const tls = await ca.serverCertificate()
  await using server = await startStepCa({ ca, clock, provisioner: publicJwk, tls })
  await rotateUnderTraffic({ ca: folder => configure(folder, server.address, ca.trustBundle().join('')) })
  assert.ok(ca.requests >= 6)
})

test('two Envoys do mutual TLS with certificates of a real step-ca while they rotate and it restarts, and no request fails', {
  skip: noEnvoy || noStepCa,
}, async () => {
  await using server = await startStepCaServer({ keys: { [PROVISIONER]: publicJwk } })
  await rotateUnderTraffic({
    ca: folder => configure(folder, server.address, server.rootPem),
    between: () => server.restart(),
  })
})
