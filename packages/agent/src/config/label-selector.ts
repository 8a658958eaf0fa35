/** Label selectors as kubectl takes them: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors */

type Labels = ReadonlyMap<string, string>

/** One requirement. `key!=value` and `notin` also match a pod without the label. */
interface Requirement {
  readonly key: string
  readonly operator: 'in' | 'notin' | 'exists' | 'absent'
  readonly values: ReadonlySet<string>
}

/** All requirements must match; an empty list matches every pod. */
export type LabelSelector = readonly Requirement[]

const KEY = String.raw`((?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)`
const SET = new RegExp(String.raw`^${KEY}\s+(in|notin)\s*\(([^()]*)\)$`)
const EQUALITY = new RegExp(String.raw`^${KEY}\s*(==|=|!=)\s*(\S*)$`)
const EXISTENCE = new RegExp(String.raw`^(!?)\s*${KEY}$`)
const VALUE = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/

/** `undefined` if `text` is not a selector. */
export function parseLabelSelector(text: string): LabelSelector | undefined {
  if (text.trim() === '') return []
  // A comma in parentheses separates values.
  const requirements = text.split(/,(?![^()]*\))/).map(part => parseRequirement(part.trim()))
  return requirements.every(requirement => requirement !== undefined) ? requirements : undefined
}

function parseRequirement(text: string): Requirement | undefined {
  const [, setKey, setOperator, list = ''] = SET.exec(text) ?? []
  if (setKey !== undefined) return requirement(setKey, setOperator === 'in' ? 'in' : 'notin', list.split(','))
  const [, key, sign, value = ''] = EQUALITY.exec(text) ?? []
  if (key !== undefined) return requirement(key, sign === '!=' ? 'notin' : 'in', [value])
  const [, not, only] = EXISTENCE.exec(text) ?? []
  return only === undefined ? undefined : requirement(only, not === '!' ? 'absent' : 'exists', [])
}

function requirement(key: string, operator: Requirement['operator'], list: readonly string[]): Requirement | undefined {
  const values = list.map(value => value.trim())
  return values.every(value => VALUE.test(value)) ? { key, operator, values: new Set(values) } : undefined
}

export function matchesLabels(selector: LabelSelector, labels: Labels): boolean {
  return selector.every(requirement => isMet(requirement, labels.get(requirement.key)))
}

function isMet({ operator, values }: Requirement, value: string | undefined): boolean {
  switch (operator) {
    case 'in':
      return value !== undefined && values.has(value)
    case 'notin':
      return value === undefined || !values.has(value)
    case 'exists':
      return value !== undefined
    case 'absent':
      return value === undefined
  }
}
