/** The public names of `@livery/ca-plugins/kubernetes-csr`. */

export { kubernetesCsr, kubernetesCsr as plugin } from './kubernetes-csr.ts'
export type { KubernetesCsrConfig } from './plugin.ts'
