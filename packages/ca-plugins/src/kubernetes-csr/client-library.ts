/// <reference path="./ws-types.d.ts" />
/** The official client library, which is loaded when it is needed: it is large, and most agents do without. */
import type * as KubernetesClient from '@kubernetes/client-node'

export type KubernetesLibrary = typeof KubernetesClient

const PACKAGE = '@kubernetes/client-node'

/** Rejects with an `Error` that names the package and the command that installs it. A test hands in another `load`. */
export async function loadKubernetesLibrary(
  load: () => Promise<KubernetesLibrary> = () => import('@kubernetes/client-node'),
): Promise<KubernetesLibrary> {
  try {
    return await load()
  } catch (error) {
    if (!isMissing(error)) throw error
    throw new Error(
      `Cannot load the kubernetes-csr plugin: the package ${PACKAGE} is not installed. Install it beside Livery: npm install ${PACKAGE}`,
      { cause: error },
    )
  }
}

function isMissing(error: unknown): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(String(error.code)) && error.message.includes(`'${PACKAGE}'`)
}
