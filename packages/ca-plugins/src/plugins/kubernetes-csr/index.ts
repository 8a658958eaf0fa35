/** The `kubernetes-csr` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin } from '@livery/core/plugin'
import { checkConfig, kubernetesCsrOptions } from './config.ts'
import { createKubernetesCsr } from './create-kubernetes-csr.ts'

export type { KubernetesCsrConfig } from './config.ts'
export { openKubeconfig } from './open-kubeconfig.ts'

export const kubernetesCsr = defineCAPlugin({
  apiVersion: 1,
  name: 'kubernetes-csr',
  capabilities: {
    roots: 'poll',
    // The API accepts no lifetime under ten minutes, and the signer may ignore any other.
    ttl: 'ignored',
    san: 'csr',
    dnsNames: true,
    keyTypes: ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'],
    asynchronous: true,
  },
  options: kubernetesCsrOptions,
  needs: ['credentials'],
  check: checkConfig,
  create: (context, config) => createKubernetesCsr(context, config),
})

export { kubernetesCsr as plugin }
