/// <reference path="./ws-types.d.ts" />
/** The official client library, which is loaded to read a kubeconfig. */
import type * as KubernetesClient from '@kubernetes/client-node'
import { optionalPackage } from '../optional-package.ts'

export type KubernetesLibrary = typeof KubernetesClient

/** Rejects with an `Error` that names the package and the command that installs it. A test hands in another `load`. */
export function loadKubernetesLibrary(
  load: () => Promise<KubernetesLibrary> = () => import('@kubernetes/client-node'),
): Promise<KubernetesLibrary> {
  return optionalPackage('kubernetes-csr', '@kubernetes/client-node', load())
}
