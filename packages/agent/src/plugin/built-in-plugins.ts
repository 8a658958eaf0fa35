/** The plugins that come with the agent, by their configuration names. Only the used one is loaded. */
import type { CAPlugin, CredentialPlugin } from '@livery/core/plugin'

export const BUILT_IN_CA_PLUGINS: Readonly<Record<string, () => Promise<{ readonly plugin: CAPlugin }>>> = {
  citadel: () => import('@livery/ca-plugins/citadel'),
  embedded: () => import('@livery/ca-plugins/embedded'),
  failover: () => import('@livery/ca-plugins/failover'),
  'file-mount': () => import('@livery/ca-plugins/file-mount'),
  'google-ca': () => import('@livery/ca-plugins/google-ca'),
  'kubernetes-csr': () => import('@livery/ca-plugins/kubernetes-csr'),
  spiffe: () => import('@livery/ca-plugins/spiffe'),
  'step-ca': () => import('@livery/ca-plugins/step-ca'),
  vault: () => import('@livery/ca-plugins/vault'),
}

/** Named under `credentials: { source: … }`. */
export const BUILT_IN_CREDENTIALS: Readonly<Record<string, () => Promise<{ readonly plugin: CredentialPlugin }>>> = {
  'token-file': async () => ({ plugin: (await credentials()).tokenFile }),
  'gce-metadata': async () => ({ plugin: (await credentials()).gceMetadata }),
  'workload-token': async () => ({ plugin: (await credentials()).workloadToken }),
  sts: async () => ({ plugin: (await credentials()).sts }),
  static: async () => ({ plugin: (await credentials()).staticToken }),
}

function credentials() {
  return import('@livery/ca-plugins/credentials')
}
