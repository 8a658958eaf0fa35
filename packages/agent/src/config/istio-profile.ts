/** `profile: istio`: the needs of an unchanged istio-proxy, and the defaults of Istio's agent. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Tree } from '../schema/config-tree.ts'
import type { Environment } from './environment.ts'

/** One key, in the form in which the file would write it. */
type ProfileKey = readonly [path: readonly string[], value: Tree]

/** Istio's template mounts an emptyDir there, owned by root, mode 0777. Only the containers of the pod see it. */
const SOCKET_FOLDER = './var/run/secrets/workload-spiffe-uds'
/** Mounted in a mesh with a list of revoked certificates; Istio's agent sends it with `ROOTCA`. */
const CRL = './var/run/secrets/istio/crl/ca-crl.pem'

/** istiod as the CA, with the files that Istio's template mounts. */
export const ISTIOD: readonly ProfileKey[] = [
  [['ca', 'plugin'], 'citadel'],
  [['ca', 'address'], 'istiod.istio-system.svc:15012'],
  [['ca', 'rootCert'], './var/run/secrets/istio/root-cert.pem'],
  [['ca', 'tokenFile'], './var/run/secrets/tokens/istio-token'],
]

/** The keys that do not depend on the CA. `WORKLOAD_IDENTITY_SOCKET_FILE` names the socket, as it does for istio-proxy. */
export function istioKeys(environment: Environment, workingDirectory: string): readonly ProfileKey[] {
  const identity = ownIdentity(environment)
  const hasList = existsSync(resolve(workingDirectory, CRL))
  return [
    [['sharedFolders'], [SOCKET_FOLDER]],
    ...(hasList ? [[['trust', 'crl'], CRL] as const] : []),
    ...(identity === undefined ? [] : [[['identities'], [identity]] as const]),
  ]
}

/** The identity of the agent's own pod, where Istio's template names it. */
function ownIdentity(environment: Environment): Tree | undefined {
  const { SERVICE_ACCOUNT: account, POD_NAMESPACE: namespace, WORKLOAD_IDENTITY_SOCKET_FILE: name } = environment
  if (!account || !namespace) return undefined
  const id = `spiffe://${environment['TRUST_DOMAIN'] || 'cluster.local'}/ns/${namespace}/sa/${account}`
  return { id, socket: `${SOCKET_FOLDER}/${name || 'socket'}` }
}
