/** Which pods get an identity, and which one. */
import type { SpiffeId } from '@livery/core/plugin'
import { fillIdentityTemplate, type IdentityTemplate, type PodFacts } from '../config/identity-template.ts'
import { type LabelSelector, matchesLabels } from '../config/label-selector.ts'

export interface PodRules {
  readonly trustDomain: string
  readonly template: IdentityTemplate
  readonly selector: LabelSelector
  readonly namespaces: {
    /** Without one: every namespace. */
    readonly only: readonly string[]
    readonly except: readonly string[]
  }
}

/** `undefined`: the pod is not chosen. `reason`: it is, but has no identity. */
export function identityOf(rules: PodRules, pod: PodFacts): SpiffeId | { readonly reason: string } | undefined {
  return isChosen(rules, pod) ? fillIdentityTemplate(rules.template, pod, rules.trustDomain) : undefined
}

function isChosen({ namespaces: { only, except }, selector }: PodRules, { namespace, labels }: PodFacts): boolean {
  if (only.length > 0 && !only.includes(namespace)) return false
  return !except.includes(namespace) && matchesLabels(selector, labels)
}
