/** The building blocks of the schema: values and objects whose faults say the reason and the remedy. */
import * as v from 'valibot'

/** Why a value does not fit: "is no duration", and what to write instead. */
export class Fault {
  readonly reason: string
  readonly remedy: string

  constructor(reason: string, remedy: string) {
    this.reason = reason
    this.remedy = remedy
  }
}

export type Schema<T> = v.GenericSchema<unknown, T>

/** A value that `parse` understands, or answers with a {@link Fault}. */
export function leaf<T>(parse: (input: unknown) => T | Fault): Schema<T> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T>(({ dataset, addIssue, NEVER }) => {
      const result = dataset.value === null ? EMPTY : parse(dataset.value)
      if (!(result instanceof Fault)) return result
      addIssue({ message: faultText(result) })
      return NEVER
    }),
  )
}

/** A string that `parse` understands. */
export function text<T>(parse: (input: string) => T | Fault, remedy: string): Schema<T> {
  return leaf(input => (typeof input === 'string' ? parse(input) : new Fault(`is ${kindOf(input)}, no string`, remedy)))
}

/** An object with these keys and no others; `explainUnknown` may know better why another one is refused. */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  explainUnknown: (key: string) => string | undefined = () => undefined,
) {
  const known = Object.keys(entries)
  const schema = v.object(entries, issue => {
    if (issue.received === 'undefined') return `is missing. Add the key "${String(issue.path?.at(-1)?.key)}".`
    return `is ${kindOf(issue.input)}, no mapping. Write ${known.slice(0, 3).join(', ')}${known.length > 3 ? ', …' : ''} under it.`
  })
  // A strict object of the library would report the first unknown key and keep quiet about the others.
  const refuse = (key: string) => v.never(explainUnknown(key) ?? unknownKeyText(key, known))
  return v.lazy((input): typeof schema => {
    const unknown = isMapping(input) ? Object.keys(input).filter(key => !Object.hasOwn(entries, key)) : []
    if (unknown.length === 0) return schema
    return { ...schema, entries: { ...entries, ...Object.fromEntries(unknown.map(key => [key, refuse(key)])) } }
  })
}

function isMapping(input: unknown): input is object {
  return typeof input === 'object' && input !== null && !Array.isArray(input)
}

/** A list of `item`. */
export function list<T>(item: Schema<T>): Schema<T[]> {
  return v.array(item, issue => `is ${kindOf(issue.input)}, no list. Write "- " before each entry, or [ ] around them.`)
}

/** Names and their `value`; `text` says what is wrong with something else. */
export function record<T>(value: Schema<T>, text: (input: unknown) => string): Schema<Readonly<Record<string, T>>> {
  // To valibot a list is a record too.
  return v.lazy(input =>
    Array.isArray(input) ? v.never(text(input)) : v.record(v.string(), value, text(input)),
  ) as Schema<Readonly<Record<string, T>>>
}

/** `is unknown. Did you mean "ratio"? …` */
export function unknownKeyText(key: string, known: readonly string[]): string {
  const near = nearest(key, known)
  const hint = near === undefined ? 'Remove it.' : `Did you mean "${near}"?`
  return `unknown key. ${hint} Known here: ${known.join(', ')}.`
}

/** Longer texts are no slips of the pen, and the comparison takes time with their length. */
const MAX_SLIP_LENGTH = 64

/** The candidate that `text` was probably meant to be, if any is near. */
export function nearest(text: string, candidates: readonly string[]): string | undefined {
  if (text.length > MAX_SLIP_LENGTH) return undefined
  const wanted = text.toLowerCase()
  const ranked = candidates
    .map(candidate => ({ candidate, distance: editDistance(wanted, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(2, Math.floor(text.length / 3)) ? best.candidate : undefined
}

/** "a number", "a list", "empty": for messages. */
export function kindOf(input: unknown): string {
  if (input === null || input === undefined) return 'empty'
  if (Array.isArray(input)) return 'a list'
  if (typeof input === 'object') return 'a mapping'
  return `a ${typeof input}`
}

const EMPTY = new Fault('has no value', 'Write one after the colon, or remove the line')

function faultText(fault: Fault): string {
  return `${fault.reason}. ${fault.remedy}${fault.remedy.endsWith('?') ? '' : '.'}`
}

/** Levenshtein's, with one row. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replace = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replace, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
