/** The SPIFFE ID of a pod by a template such as `spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}`. */
import { isSpiffeId, type SpiffeId, trustDomainOf } from '@livery/core/plugin'

/** A part of the template: text as it is, or the value of a variable. */
type Part = { readonly text: string } | { readonly variable: string; readonly read: Read }
type Read = (pod: PodFacts, trustDomain: string) => string | undefined

/** The part of a pod that a template can name. */
export interface PodFacts {
  /**
   * The UID by which the node knows it: in the names of its cgroups and in its own downward API. For the mirror of a static
   * pod that is the hash which kubelet gave the static pod, not the UID of the API server's object.
   */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Empty for the mirror of a static pod: the API server lets it have none. */
  readonly serviceAccount: string
  readonly labels: ReadonlyMap<string, string>
  readonly annotations: ReadonlyMap<string, string>
}

export interface IdentityTemplate {
  readonly parts: readonly Part[]
  /** The keys of the annotations that it names. */
  readonly annotations: readonly string[]
}

/** A value that is one segment of a path, or a part of one: with a slash a pod could write more of its identity than it is meant to. */
const PART_OF_SEGMENT = /^[A-Za-z0-9._-]+$/

const VARIABLES: Readonly<Record<string, Read>> = {
  trustDomain: (_, trustDomain) => trustDomain,
  namespace: pod => pod.namespace,
  serviceAccount: pod => pod.serviceAccount,
  pod: pod => pod.name,
  uid: pod => pod.uid,
}

/** Why `template` cannot be used in `trustDomain`, or the template. */
export function parseIdentityTemplate(
  template: string,
  trustDomain: string,
): IdentityTemplate | { readonly problem: string } {
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
    const read = readerOf(variable)
    if (!read)
      return {
        problem: `names ${piece}, which is none of ${Object.keys(VARIABLES).join(', ')}, label:KEY and annotation:KEY`,
      }
    parts.push({ variable, read })
  }
  const annotations = names.filter(name => name.startsWith('annotation:')).map(name => name.slice('annotation:'.length))
  const example = parts.map(part => textOf(part, trustDomain)).join('')
  if (!isSpiffeId(example)) return { problem: 'does not make SPIFFE IDs' }
  if (trustDomainOf(example) !== trustDomain)
    return { problem: `is not in the trust domain ${trustDomain} of this agent` }
  return { parts, annotations }
}

/** For a check of the form: `x` stands for each value of a pod. */
function textOf(part: Part, trustDomain: string): string {
  if ('text' in part) return part.text
  return part.variable === 'trustDomain' ? trustDomain : 'x'
}

function readerOf(variable: string): Read | undefined {
  if (Object.hasOwn(VARIABLES, variable)) return VARIABLES[variable]
  const [, kind, key] = /^(label|annotation):(\S+)$/.exec(variable) ?? []
  if (key === undefined) return undefined
  return pod => (kind === 'label' ? pod.labels : pod.annotations).get(key)
}

/** The identity, or the reason why this pod has none. */
export function fillIdentityTemplate(
  { parts }: IdentityTemplate,
  pod: PodFacts,
  trustDomain: string,
): SpiffeId | { readonly reason: string } {
  let id = ''
  for (const part of parts) {
    if ('text' in part) {
      id += part.text
      continue
    }
    const value = part.read(pod, trustDomain)
    if (value === undefined || value === '') return { reason: `it has no ${part.variable}` }
    if (!PART_OF_SEGMENT.test(value))
      return { reason: `its ${part.variable} has characters other than letters, digits, ".", "_" and "-"` }
    id += value
  }
  return isSpiffeId(id) && trustDomainOf(id) === trustDomain ? id : { reason: 'the template makes no SPIFFE ID of it' }
}
