/** The public names of `@livery/ca-plugins/kubernetes-csr`. */

export type { KubernetesCsrConfig } from './config.ts'
export { openKubeconfig } from './open-kubeconfig.ts'
export { kubernetesCsr, kubernetesCsr as plugin } from './plugin.ts'
