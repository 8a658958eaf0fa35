/** The `kubernetes-csr` plugin: certificates by CertificateSigningRequests of the Kubernetes API. */
import { defineCAPlugin } from '@livery/core'
import { createKubernetesCsr } from './create-kubernetes-csr.ts'
import { checkConfig, kubernetesCsrOptions } from './plugin.ts'

export const kubernetesCsr = defineCAPlugin({
  apiVersion: 1,
  name: 'kubernetes-csr',
  capabilities: {
    roots: 'poll',
    // The API takes no wish under ten minutes, and leaves it to the signer whether it heeds the others.
    ttl: 'ignored',
    san: 'csr',
    keyTypes: ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'],
    asynchronous: true,
  },
  options: kubernetesCsrOptions,
  needs: ['credentials'],
  check: checkConfig,
  create: (context, config) => createKubernetesCsr(context, config),
})
