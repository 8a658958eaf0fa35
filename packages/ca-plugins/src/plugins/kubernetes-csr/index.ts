/** The public names of `@livery/ca-plugins/kubernetes-csr`. */

export { openKubeconfig } from './open-kubeconfig.ts'
export type { KubernetesCsrConfig } from './plugin.ts'
export { kubernetesCsr, kubernetesCsr as plugin } from './plugin.ts'
