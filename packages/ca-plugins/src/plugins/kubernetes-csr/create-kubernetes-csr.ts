/** Makes the client for a configuration of the `kubernetes-csr` plugin. Not in index.ts: its types come from an optional package. */
import type { CAClient, CAContext } from '@livery/core/plugin'
import { type Answer, rootsInBundle } from '../../answers/certificate-chain.ts'
import { ApiConnection } from '../../kubernetes-api/api-connection.ts'
import { PodLogin } from '../../kubernetes-api/pod-login.ts'
import { connectionTls } from '../../transport/connection-tls.ts'
import { KubernetesCsrClient } from './client.ts'
import { type KubernetesLibrary, loadKubernetesLibrary } from './client-library.ts'
import type { KubernetesCsrConfig } from './config.ts'
import { KubeconfigLogin } from './kubeconfig-login.ts'
import { SigningRequestApi } from './signing-request-api.ts'

interface KubernetesCsrSurroundings {
  /** Default: the installed package. */
  readonly loadLibrary?: () => Promise<KubernetesLibrary>
  /** Prefix of the paths of the service account. Default: empty. */
  readonly podRoot?: string
  /** A number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number
}

/**
 * Opens no connection yet. Throws a `TypeError` outside a pod without `kubeconfig`, and an `Error` with the command that
 * installs it if a kubeconfig is to be read and the client library is missing.
 */
export async function createKubernetesCsr(
  context: CAContext,
  config: KubernetesCsrConfig,
  { loadLibrary, podRoot, random = Math.random }: KubernetesCsrSurroundings = {},
): Promise<CAClient> {
  const { clock, credentials, log } = context
  const { kubeconfig, context: contextName } = config
  const login =
    kubeconfig === undefined
      ? new PodLogin('Set kubeconfig to a file', podRoot)
      : new KubeconfigLogin(await loadKubernetesLibrary(loadLibrary), kubeconfig, log, contextName)
  const connection = new ApiConnection(login, clock, credentials)
  const api = new SigningRequestApi(connection)
  return new KubernetesCsrClient({ config, clock, random, log, connection, api, roots: rootsOf(context, config, api) })
}

type Roots = (signal: AbortSignal) => Promise<readonly string[]>

function rootsOf({ log }: CAContext, config: KubernetesCsrConfig, api: SigningRequestApi): Roots {
  const { clusterTrustBundle, signerRoots } = config
  if (clusterTrustBundle === undefined) {
    const read = connectionTls({ ...(signerRoots !== undefined && { rootCert: signerRoots }), log })
    return async () => rootsInBundle(String((await read()).roots ?? ''), rootsIn(`signerRoots ${signerRoots}`))
  }
  const bundle = rootsIn(`the ClusterTrustBundle ${clusterTrustBundle}`)
  return async signal => rootsInBundle(await api.trustBundle(clusterTrustBundle, { signal }), bundle)
}

function rootsIn(what: string): Answer {
  return { action: `use ${what}`, remedy: 'Put the roots of the signer there, as PEM', source: 'it' }
}
