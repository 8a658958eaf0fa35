/** Names of Kubernetes Secrets as Istio writes them, `kubernetes://[NAMESPACE/]NAME[-cacert]`, and patterns of such names. */
import type { FileSecretName, KubernetesObject } from '../secrets/secret-name.ts'

export const KUBERNETES_SCHEME = 'kubernetes://'
/** The suffix of a name for the roots instead of the pair. */
export const ROOTS_SUFFIX = '-cacert'

export type KubernetesName = Extract<FileSecretName, KubernetesObject>

/** One name, or every name of a namespace. */
export interface KubernetesPattern {
  readonly kind: 'kubernetes'
  readonly namespace: string
  /** As `formatKubernetesName` has it. */
  readonly name?: string
}

/** Reads a name; `namespace`: the default for a name without one. A text is the reason why it is not a name, after "it …". */
export function parseKubernetesName(text: string, namespace?: string): KubernetesName | string {
  const [first = '', second, ...others] = text.slice(KUBERNETES_SCHEME.length).split('/')
  const [where, name] = second === undefined ? [namespace, first] : [first, second]
  if (others.length > 0) return 'is not kubernetes://NAMESPACE/NAME'
  if (where === undefined) return 'names no namespace, and this agent has no default namespace'
  if (!isObjectName(where) || !isObjectName(name)) return 'has a part that is no name of Kubernetes'
  const isRoots = name.endsWith(ROOTS_SUFFIX) && name.length > ROOTS_SUFFIX.length
  if (!isRoots) return { kind: 'kubernetes-pair', namespace: where, name }
  return { kind: 'kubernetes-roots', namespace: where, name: name.slice(0, -ROOTS_SUFFIX.length) }
}

export function formatKubernetesName({ kind, namespace, name }: KubernetesName): string {
  return `${KUBERNETES_SCHEME}${namespace}/${name}${kind === 'kubernetes-roots' ? ROOTS_SUFFIX : ''}`
}

/** Reads a pattern: a name with its namespace, or `kubernetes://NAMESPACE/*`. As {@link parseKubernetesName}. */
export function parseKubernetesPattern(text: string): KubernetesPattern | string {
  if (!text.endsWith('/*')) {
    const name = parseKubernetesName(text)
    return typeof name === 'string' ? name : { kind: 'kubernetes', namespace: name.namespace, name: text }
  }
  const namespace = text.slice(KUBERNETES_SCHEME.length, -'/*'.length)
  return isObjectName(namespace) ? { kind: 'kubernetes', namespace } : 'has a part that is no name of Kubernetes'
}

export function matchesKubernetesPattern({ namespace, name }: KubernetesPattern, asked: KubernetesName): boolean {
  return namespace === asked.namespace && (name === undefined || name === formatKubernetesName(asked))
}

/** RFC 1123. The name becomes a path segment at the API server. */
function isObjectName(text: string): boolean {
  return text.length <= 253 && /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(text)
}
