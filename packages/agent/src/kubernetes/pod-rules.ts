/** Which pods get an identity, and which one. */
import type { SpiffeId } from '@livery/core/plugin'
import { fillDnsTemplate, fillIdentityTemplate, type PodFacts, type Template } from '../config/identity-template.ts'
import { type LabelSelector, matchesLabels } from '../config/label-selector.ts'

export interface PodRules {
  readonly trustDomain: string
  readonly template: Template
  readonly dnsNames: readonly Template[]
  readonly selector: LabelSelector
  readonly namespaces: {
    /** An empty list means every namespace. */
    readonly only: readonly string[]
    readonly except: readonly string[]
  }
}

/** `undefined`: the pod is not chosen. `reason`: it is chosen, but has no identity. */
export function identityOf(rules: PodRules, pod: PodFacts): SpiffeId | { readonly reason: string } | undefined {
  return isChosen(rules, pod) ? fillIdentityTemplate(rules.template, pod, rules.trustDomain) : undefined
}

/** Each name once, in order; `problems`: the templates that the pod cannot fill. */
export function dnsNamesOf({ dnsNames }: PodRules, pod: PodFacts) {
  const names = new Set<string>()
  const problems: { readonly dnsName: string; readonly reason: string }[] = []
  for (const template of dnsNames) {
    const name = fillDnsTemplate(template, pod)
    if (typeof name === 'string') names.add(name)
    else problems.push({ dnsName: template.text, reason: name.reason })
  }
  return { names: [...names].sort(), problems }
}

function isChosen({ namespaces: { only, except }, selector }: PodRules, { namespace, labels }: PodFacts): boolean {
  if (only.length > 0 && !only.includes(namespace)) return false
  return !except.includes(namespace) && matchesLabels(selector, labels)
}
