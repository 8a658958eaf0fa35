/** Opens a kubeconfig for other clients of an API server, without types of the optional client library. */
import type { PluginLog } from '@livery/core/plugin'
import type { LoginSource } from '../../kubernetes-api/api-login.ts'
import { loadKubernetesLibrary } from './client-library.ts'
import { KubeconfigLogin } from './kubeconfig-login.ts'

/** `kubeconfig` is its path. Rejects with an `Error` that names the client library if it is not installed. */
export async function openKubeconfig(kubeconfig: string, log: Pick<PluginLog, 'warn'>): Promise<LoginSource> {
  return new KubeconfigLogin(await loadKubernetesLibrary(), kubeconfig, log)
}
