/** Makes the client that a configuration of the `kubernetes-csr` plugin asks for. */
import type { CAClient, CAContext } from '@livery/core'
import { type Answer, rootsInBundle } from '../../answers/certificate-chain.ts'
import { connectionTls } from '../../transport/connection-tls.ts'
import { ApiConnection } from './api-connection.ts'
import { KubernetesCsrClient } from './client.ts'
import { type KubernetesLibrary, loadKubernetesLibrary } from './client-library.ts'
import { LoginFiles } from './login.ts'
import type { KubernetesCsrConfig } from './plugin.ts'
import { SigningRequestApi } from './signing-request-api.ts'

export interface KubernetesCsrSurroundings {
  /** Default: the installed package. */
  readonly loadLibrary?: () => Promise<KubernetesLibrary>
  /** What the paths of the service account begin with; default: nothing. */
  readonly podRoot?: string
  /** In [0, 1). Default: `Math.random`. */
  readonly random?: () => number
}

/**
 * Opens no connection yet. Throws a `TypeError` outside a pod without `kubeconfig`, and an `Error` with the command that
 * installs it if the client library is missing.
 */
export async function createKubernetesCsr(
  context: CAContext,
  config: KubernetesCsrConfig,
  { loadLibrary, podRoot, random = Math.random }: KubernetesCsrSurroundings = {},
): Promise<CAClient> {
  if (config.kubeconfig === undefined && process.env['KUBERNETES_SERVICE_HOST'] === undefined)
    throw new TypeError(
      'Cannot use the service account of the pod: KUBERNETES_SERVICE_HOST is not set, so this is none. Set kubeconfig to a file.',
    )
  const library = await loadKubernetesLibrary(loadLibrary)
  const { clock, credentials, log } = context
  const login = new LoginFiles({
    library,
    log,
    ...(config.kubeconfig !== undefined && { kubeconfig: config.kubeconfig }),
    ...(config.context !== undefined && { context: config.context }),
    ...(podRoot !== undefined && { podRoot }),
  })
  const connection = new ApiConnection({ library, login, clock, credentials })
  const api = new SigningRequestApi(library, connection)
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
