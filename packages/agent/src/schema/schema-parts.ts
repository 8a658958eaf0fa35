/** The building blocks of the schema: values and objects whose faults have a reason and a remedy. */
import * as v from 'valibot'
import { isTreeObject, type Tree } from './config-tree.ts'
import { Fault } from './fault.ts'

export type Schema<T> = v.GenericSchema<unknown, T>

/** The facts of a key, besides its meaning and its form. */
export interface KeyFacts {
  /** The default in the file's form. A key without one is required, unless it is optional. */
  readonly default?: Tree | ((surroundings: Surroundings) => Tree)
  /** A change takes effect while the agent runs. */
  readonly live?: true
  /** The module that reads it, if that module is optional. */
  readonly module?: string
}

/** The facts that a default can depend on. */
export interface Surroundings {
  /** Whether logs go to a terminal. */
  readonly terminal: boolean
}

/**
 * The entry of a key: its meaning for the reader of the reference (one or two sentences, the first without its subject),
 * its form, and its facts.
 */
export function key<T>(
  meaning: string,
  value: Schema<T>,
  facts: KeyFacts = {},
): Schema<T> & { readonly facts: KeyFacts } {
  return { ...v.pipe(value, v.description<T, string>(meaning)), facts }
}

/** The entry of a mapping that every configuration has: missing keys are filled in. */
export function section<const Entries extends v.ObjectEntries>(
  meaning: string,
  entries: Entries,
  facts: KeyFacts = {},
) {
  return key(meaning, object(entries), { default: {}, ...facts })
}

/** Makes a written path absolute: `folder` is the base of a relative one. */
export type MakeAbsolute = (written: string, folder: string) => string

/** A `value` that is or contains a path. */
export function withPath<T>(
  value: Schema<T>,
  makeAbsolute: MakeAbsolute,
): Schema<T> & { readonly makeAbsolute: MakeAbsolute } {
  return { ...value, makeAbsolute }
}

/** A value that `parse` reads, or answers with a {@link Fault}; `form` describes it in the reference. */
export function scalar<T>(form: string, parse: (input: unknown) => T | Fault): Schema<T> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T>(({ dataset, addIssue, NEVER }) => {
      const result = dataset.value === null ? EMPTY : parse(dataset.value)
      if (!(result instanceof Fault)) return result
      addIssue({ message: faultMessage(result) })
      return NEVER
    }),
    v.metadata({ form }),
  )
}

/** A string that `parse` reads. */
export function text<T>(form: string, parse: (input: string) => T | Fault, remedy: string): Schema<T> {
  return scalar(form, input =>
    typeof input === 'string' ? parse(input) : new Fault(`is ${kindOf(input)}, not a string`, remedy),
  )
}

/** A value with one of several forms; `pick` chooses it by the input. */
export function oneForm<T>(forms: readonly Schema<T>[], pick: (input: unknown) => Schema<T>): Schema<T> {
  return v.pipe(v.lazy(pick), v.metadata({ forms }))
}

/** An object with exactly these keys; `explainUnknown` may have a better reason to refuse another one. */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  explainUnknown: (key: string) => Fault | undefined = () => undefined,
) {
  const known = Object.keys(entries)
  const schema = v.object(entries, issue => {
    if (issue.received === 'undefined')
      return faultMessage(new Fault('is missing', `Add the key "${String(issue.path?.at(-1)?.key)}"`))
    const remedy = `Write ${known.slice(0, 3).join(', ')}${known.length > 3 ? ', …' : ''} under it`
    return faultMessage(new Fault(`is ${kindOf(issue.input)}, not a mapping`, remedy))
  })
  // The library's strict object would report only the first unknown key.
  const refuse = (key: string) => v.never(faultMessage(explainUnknown(key) ?? unknownKey(key, known)))
  return v.lazy((input): typeof schema => {
    const unknown = isTreeObject(input) ? Object.keys(input).filter(key => !Object.hasOwn(entries, key)) : []
    if (unknown.length === 0) return schema
    return { ...schema, entries: { ...entries, ...Object.fromEntries(unknown.map(key => [key, refuse(key)])) } }
  })
}

/** A list of `item`. */
export function list<T>(item: Schema<T>): Schema<T[]> {
  const remedy = 'Write "- " before each entry, or [ ] around them'
  return v.array(item, issue => faultMessage(new Fault(`is ${kindOf(issue.input)}, not a list`, remedy)))
}

/** A mapping from names to `value`; `refuse` explains any other input. */
export function record<T>(value: Schema<T>, refuse: (input: unknown) => Fault): Schema<Readonly<Record<string, T>>> {
  // valibot takes a list for a record too.
  return v.lazy(input => {
    const message = faultMessage(refuse(input))
    return Array.isArray(input) ? v.never(message) : v.record(v.string(), value, message)
  }) as Schema<Readonly<Record<string, T>>>
}

function unknownKey(key: string, known: readonly string[]): Fault {
  const near = nearest(key, known) ?? known.find(each => key.length > 2 && each.startsWith(key))
  const hint = near === undefined ? 'Remove it.' : `Did you mean "${near}"?`
  return new Fault('unknown key', `${hint} Known here: ${known.join(', ')}`)
}

/** The library's issues carry one text. */
export function faultMessage({ reason, remedy }: Fault): string {
  return JSON.stringify([reason, remedy])
}

/** The fault that a schema of this file put into an issue. */
export function messageFault(message: string): Fault {
  const [reason, remedy]: [string, string] = JSON.parse(message)
  return new Fault(reason, remedy)
}

/** Longer texts are not misspellings, and the comparison takes longer with their length. */
const MAX_SLIP_LENGTH = 64

/** The nearest candidate, which `text` probably meant, if any is near: one that begins as a text of three letters does. */
export function nearest(text: string, candidates: readonly string[]): string | undefined {
  if (text.length > MAX_SLIP_LENGTH) return undefined
  const wanted = text.toLowerCase()
  const ranked = candidates
    .filter(candidate => wanted.length > 3 || candidate.toLowerCase().startsWith(wanted.slice(0, 1)))
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

/** Levenshtein's distance, with one row. */
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
