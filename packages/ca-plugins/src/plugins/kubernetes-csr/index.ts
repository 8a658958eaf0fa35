/** The public names of `@livery/ca-plugins/kubernetes-csr`. */

export { loadKubernetesLibrary } from './client-library.ts'
export { KubeconfigLogin } from './kubeconfig-login.ts'
export type { KubernetesCsrConfig } from './plugin.ts'
export { kubernetesCsr, kubernetesCsr as plugin } from './plugin.ts'
