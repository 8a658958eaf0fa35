/** The module `kubernetesSecrets`: Secrets of Kubernetes that callers name, as gateways do. */
import type { Basis } from '../life/basis.ts'
import { pluginLog } from '../observe/plugin-log.ts'

export const kubernetesSecrets = {
  name: 'kubernetesSecrets',
  async open({ config, life, clock, scopes }: Basis) {
    if (!config.kubernetesSecrets) return { objects: undefined }
    const { namespaces } = config.kubernetesSecrets
    // Most agents read no Secrets: they load no client of the API server.
    const { ClusterSecrets } = await import('./cluster-secrets.ts')
    const log = pluginLog(scopes.of('kubernetes'), 'kubernetes')
    return { objects: life.parts.use(new ClusterSecrets(namespaces, clock, log)) }
  },
}
