/** A Kubernetes API with a third party's signer behind the agent and two Envoys: a stand-in always, and a real one where LIVERY_KUBE names its kubeconfig. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { documentedGrants, noRealCluster, realCluster, standInCluster } from '../../ca-plugins/test/kube-clusters.ts'
import { SIGNER } from '../../ca-plugins/test/kube-setup.ts'
import { KubeSigner } from '../../ca-plugins/test/kube-signer.ts'
import { noEnvoy } from './envoy-bench.ts'
import { rotateUnderTraffic } from './envoy-rotation.ts'

for (const [where, setUp, skip] of [
  ['a stand-in API server', standInCluster, false],
  ['a real API server', realCluster, noRealCluster],
] as const)
  test(`two Envoys do mutual TLS with certificates signed through ${where} while they rotate, and no request fails`, {
    skip: noEnvoy || skip,
  }, async t => {
    const { authority, kubeconfig, userWith } = await setUp(t)
    const node = await userWith(await documentedGrants())
    // Less than the API lets one ask for: signers have their own minds.
    await using signer = new KubeSigner({ kubeconfig, authority, signerName: SIGNER, ttlSeconds: 6 })
    signer.run()
    await rotateUnderTraffic({
      async ca(folder) {
        await writeFile(join(folder, 'roots.pem'), authority.trustBundle().join(''))
        return { plugin: 'kubernetes-csr', signerName: SIGNER, signerRoots: 'roots.pem', kubeconfig: node }
      },
    })
    assert.ok(signer.signed >= 4, `${signer.signed} requests were signed`)
  })
