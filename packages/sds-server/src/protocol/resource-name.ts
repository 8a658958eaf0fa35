/** Parses SDS resource names: the grammar that Envoy, Istio and SPIRE configurations use. */
import type { FileSecretName, SecretName } from '@livery/core'
import { isFileName, parseFileName } from '@livery/core/file-secrets'
import { isSpiffeId, trustDomainProblem } from '@livery/core/plugin'

/** A parsed SDS resource name. */
type ResourceName =
  /** The caller's own identity (`default`). */
  | { readonly kind: 'own-identity' }
  /** The trust bundle of the agent's trust domain (`ROOTCA`). */
  | { readonly kind: 'own-bundle' }
  /**
   * `ALL`, `spiffe://<trust domain>/<path>`, `spiffe://<trust domain>`, `file-cert:<chain>~<key>`, `file-root:<file>`,
   * `file-root:system`, `kubernetes://[<namespace>/]<name>[-cacert]`, `token://<audience>`
   */
  | SecretName
  /** Anything else, with the reason. */
  | { readonly kind: 'unknown'; readonly reason: string }

/** The names that are configurable. */
export interface WellKnownNames {
  readonly default: string
  readonly root: string
  readonly all: string
}

/** All names whose meaning does not follow from their form. */
export interface ResourceNames extends WellKnownNames {
  /** Aliases of secrets that others write: no alias has a meaning by its form. Default: none. */
  readonly files?: ReadonlyMap<string, FileSecretName>
  /** The namespace of `kubernetes://NAME`. Default: such a name is refused. */
  readonly namespace?: string
}

/** As Istio and SPIRE have them. */
export const DEFAULT_NAMES: WellKnownNames = { default: 'default', root: 'ROOTCA', all: 'ALL' }

export function parseResourceName(text: string, names: ResourceNames): ResourceName {
  if (text === names.default) return { kind: 'own-identity' }
  if (text === names.root) return { kind: 'own-bundle' }
  if (text === names.all) return { kind: 'all-bundles' }
  if (isSpiffeId(text)) return { kind: 'identity', identity: text }
  if (text.startsWith('spiffe://')) {
    const trustDomain = text.slice('spiffe://'.length)
    if (trustDomainProblem(trustDomain) === undefined) return { kind: 'bundle', trustDomain }
    return { kind: 'unknown', reason: 'it is neither a SPIFFE ID nor a trust domain' }
  }
  if (isFileName(text)) {
    const secret = parseFileName(text, names.namespace)
    return typeof secret === 'string' ? { kind: 'unknown', reason: `it ${secret}` } : secret
  }
  const secret = names.files?.get(text)
  if (secret) return secret
  return {
    kind: 'unknown',
    reason: `it is none of "${names.default}", "${names.root}", "${names.all}", a SPIFFE ID, "spiffe://<trust domain>", "file-cert:CHAIN~KEY", "file-root:FILE", "kubernetes://NAMESPACE/NAME", "token://AUDIENCE"`,
  }
}
