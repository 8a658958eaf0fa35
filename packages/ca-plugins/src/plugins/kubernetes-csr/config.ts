/** Options of the `kubernetes-csr` plugin, and the checks that only it can make. */
import { type ConfigOf, OptionError, type PluginOptions } from '@livery/core/plugin'

export const kubernetesCsrOptions = {
  signerName: {
    type: 'string',
    required: true,
    description: 'the signer: a domain and a path, such as `example.com/workloads`',
    problem: signerNameProblem,
  },
  signerRoots: {
    type: 'path',
    description:
      "a PEM file with the signer's roots, all of them; read again when it changes. This or `clusterTrustBundle` is required",
  },
  clusterTrustBundle: {
    type: 'string',
    description:
      "the name of a `ClusterTrustBundle` with the signer's roots (`certificates.k8s.io/v1`, else `v1beta1`, which not every API server serves)",
    problem: value =>
      /^[a-z0-9]([a-z0-9.:-]{0,251}[a-z0-9])?$/.test(value)
        ? undefined
        : 'is not a name of a ClusterTrustBundle. Write one like example.com:workloads:roots',
  },
  kubeconfig: {
    type: 'path',
    description:
      "a kubeconfig; it and the files that it names are read again when they change. Without it, the pod's service account",
  },
  context: { type: 'string', description: 'the context of the kubeconfig; default: its current context' },
  usages: {
    type: 'list',
    default: ['digital signature', 'server auth', 'client auth'],
    description: 'the key usages to request',
  },
} as const satisfies PluginOptions

export type KubernetesCsrConfig = ConfigOf<typeof kubernetesCsrOptions>

export function checkConfig(config: KubernetesCsrConfig): void {
  const { signerRoots, clusterTrustBundle, kubeconfig, context, usages } = config
  if (signerRoots === undefined && clusterTrustBundle === undefined)
    throw new OptionError(
      'signerRoots',
      "Cannot use kubernetes-csr: certificates come without their root. Set signerRoots to a file with the signer's roots, or clusterTrustBundle to the name of the bundle that has them.",
    )
  if (signerRoots !== undefined && clusterTrustBundle !== undefined)
    throw new OptionError(
      'signerRoots',
      `Cannot use signerRoots ${JSON.stringify(signerRoots)}: clusterTrustBundle is set as well. Leave one of them out.`,
    )
  if (context !== undefined && kubeconfig === undefined)
    throw new OptionError(
      'context',
      `Cannot use context ${JSON.stringify(context)}: kubeconfig is missing. Set kubeconfig to the file that has this context.`,
    )
  if (usages.length === 0)
    throw new OptionError(
      'usages',
      'Cannot use usages []: the API server accepts no request without one. Leave usages out for the default.',
    )
}

function signerNameProblem(value: string): string | undefined {
  if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\/[A-Za-z0-9_.-]+$/.test(value) || value.length > 571)
    return 'is not a signer name. Write a domain and a path, as in example.com/workloads'
  // The API no longer has this signer: https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/
  if (value === 'kubernetes.io/legacy-unknown')
    return 'is a signer that certificates.k8s.io/v1 refuses. Name the one that signs for workloads'
  return undefined
}
