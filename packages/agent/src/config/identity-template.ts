/** Templates for pods: the SPIFFE ID, such as `spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}`, and DNS names, such as `{pod}.web.svc`. */
import { dnsNameProblem, isDnsLabel, isSpiffeId, type SpiffeId, trustDomainOf } from '@livery/core/plugin'

/** A part of the template: literal text, or the value of a variable. */
type Part = { readonly text: string } | { readonly variable: string; readonly read: Read }
type Read = (pod: PodFacts) => string | undefined

/** The part of a pod that a template can name. */
export interface PodFacts {
  /**
   * The UID that the node uses: in the names of its cgroups and in the pod's downward API. For the mirror of a static pod that is
   * kubelet's hash of the static pod, not the UID of the API server's object.
   */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Empty for the mirror of a static pod, which the API server allows none. */
  readonly serviceAccount: string
  readonly labels: ReadonlyMap<string, string>
  readonly annotations: ReadonlyMap<string, string>
}

export interface Template {
  /** The template as written. */
  readonly text: string
  readonly parts: readonly Part[]
  /** The keys of the annotations in the template. */
  readonly annotations: readonly string[]
}

/** A value that stays within one segment of a path: with a slash a pod could write more of its identity than it is meant to. */
const PART_OF_SEGMENT = /^[A-Za-z0-9._-]+$/

const VARIABLES: Readonly<Record<string, Read>> = {
  namespace: pod => pod.namespace,
  serviceAccount: pod => pod.serviceAccount,
  pod: pod => pod.name,
  uid: pod => pod.uid,
}

interface Refused {
  readonly problem: string
}

/** The template, or why `text` cannot be used in `trustDomain`. */
export function parseIdentityTemplate(text: string, trustDomain: string): Template | Refused {
  const template = parseTemplate(text, trustDomain)
  if ('problem' in template) return template
  const example = exampleOf(template, 'x')
  if (!isSpiffeId(example)) return { problem: 'does not make SPIFFE IDs' }
  return trustDomainOf(example) === trustDomain
    ? template
    : { problem: `is not in the trust domain ${trustDomain} of this agent` }
}

/** The same for a DNS name. */
export function parseDnsTemplate(text: string, trustDomain: string): Template | Refused {
  const template = parseTemplate(text, trustDomain)
  if ('problem' in template) return template
  // Pods could write each other's names with two values in one label: a-b and c, a and b-c.
  const labels = exampleOf(template, VALUE).split('.')
  if (labels.some(label => label.split(VALUE).length > 2)) return { problem: 'has two variables in one label' }
  return dnsNameProblem(exampleOf(template, 'x')) === undefined ? template : { problem: 'does not make DNS names' }
}

/** A placeholder that no template can contain. */
const VALUE = '{}'

function exampleOf({ parts }: Template, value: string): string {
  return parts.map(part => ('text' in part ? part.text : value)).join('')
}

function parseTemplate(template: string, trustDomain: string): Template | Refused {
  const pieces = template.split(/(\{[^{}]*\})/)
  if (pieces.some((piece, index) => index % 2 === 0 && /[{}]/.test(piece))) return { problem: 'has a brace alone' }
  const names = pieces.filter((_, index) => index % 2 === 1).map(piece => piece.slice(1, -1))
  const parts: Part[] = []
  for (const [index, piece] of pieces.entries()) {
    if (index % 2 === 0) {
      parts.push({ text: piece })
      continue
    }
    const variable = piece.slice(1, -1)
    if (variable === 'trustDomain') {
      parts.push({ text: trustDomain })
      continue
    }
    const read = readerOf(variable)
    if (!read)
      return {
        problem: `names ${piece}, which is none of trustDomain, ${Object.keys(VARIABLES).join(', ')}, label:KEY and annotation:KEY`,
      }
    parts.push({ variable, read })
  }
  const annotations = names.filter(name => name.startsWith('annotation:')).map(name => name.slice('annotation:'.length))
  return { text: template, parts, annotations }
}

function readerOf(variable: string): Read | undefined {
  if (Object.hasOwn(VARIABLES, variable)) return VARIABLES[variable]
  const [, kind, key] = /^(label|annotation):(\S+)$/.exec(variable) ?? []
  if (key === undefined) return undefined
  return pod => (kind === 'label' ? pod.labels : pod.annotations).get(key)
}

interface Unfilled {
  readonly reason: string
}

/** The identity, or why this pod has none. */
export function fillIdentityTemplate(template: Template, pod: PodFacts, trustDomain: string): SpiffeId | Unfilled {
  const id = fillTemplate(template, pod, value =>
    PART_OF_SEGMENT.test(value) ? undefined : 'has characters other than letters, digits, ".", "_" and "-"',
  )
  if (typeof id === 'object') return id
  return isSpiffeId(id) && trustDomainOf(id) === trustDomain ? id : { reason: 'the template makes no SPIFFE ID of it' }
}

/** The DNS name, or why this pod goes without it. */
export function fillDnsTemplate(template: Template, pod: PodFacts): string | Unfilled {
  const name = fillTemplate(template, pod, value => (isDnsLabel(value) ? undefined : 'is not a DNS label'))
  if (typeof name === 'object') return name
  const problem = dnsNameProblem(name)
  return problem === undefined ? name : { reason: `the name that the template makes of it ${problem}` }
}

/** `problemOf`: why a value is not allowed in the template. */
function fillTemplate(
  { parts }: Template,
  pod: PodFacts,
  problemOf: (value: string) => string | undefined,
): string | Unfilled {
  let filled = ''
  for (const part of parts) {
    if ('text' in part) {
      filled += part.text
      continue
    }
    const value = part.read(pod)
    if (value === undefined || value === '') return { reason: `it has no ${part.variable}` }
    const problem = problemOf(value)
    if (problem !== undefined) return { reason: `its ${part.variable} ${problem}` }
    filled += value
  }
  return filled
}
