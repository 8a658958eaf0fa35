/** The building blocks of the schema: values and objects whose faults say the reason and the remedy. */
import * as v from 'valibot'
import { isTreeObject, type Tree } from './config-tree.ts'
import { Fault } from './fault.ts'

export type Schema<T> = v.GenericSchema<unknown, T>

/** What an entry says of a key, besides its meaning and its form. */
export interface KeyFacts {
  /** As the file would write it. A key without one is required, unless it is optional. */
  readonly default?: Tree | ((surroundings: Surroundings) => Tree)
  /** A change takes effect while the agent runs. */
  readonly live?: true
  /** The module that reads it, where the agent can do without that module. */
  readonly module?: string
}

/** What a default can depend on. */
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

/** The entry of a mapping that every configuration has: what nobody writes is filled in. */
export function section<const Entries extends v.ObjectEntries>(
  meaning: string,
  entries: Entries,
  facts: KeyFacts = {},
) {
  return key(meaning, object(entries), { default: {}, ...facts })
}

/** Makes a written path absolute: relative ones start at `folder`. */
export type MakeAbsolute = (written: string, folder: string) => string

/** `value`, which is a path or has one. */
export function withPath<T>(
  value: Schema<T>,
  makeAbsolute: MakeAbsolute,
): Schema<T> & { readonly makeAbsolute: MakeAbsolute } {
  return { ...value, makeAbsolute }
}

/** A value that `parse` understands, or answers with a {@link Fault}; `form` is what can be written, for the reference. */
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

/** A string that `parse` understands. */
export function text<T>(form: string, parse: (input: string) => T | Fault, remedy: string): Schema<T> {
  return scalar(form, input =>
    typeof input === 'string' ? parse(input) : new Fault(`is ${kindOf(input)}, not a string`, remedy),
  )
}

/** A value of one of several forms, of which `pick` chooses by the input. */
export function oneForm<T>(forms: readonly Schema<T>[], pick: (input: unknown) => Schema<T>): Schema<T> {
  return v.pipe(v.lazy(pick), v.metadata({ forms }))
}

/** An object with these keys and no others; `explainUnknown` may know better why another one is refused. */
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
  // A strict object of the library would report the first unknown key and keep quiet about the others.
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

/** Names and their `value`; `refuse` says what is wrong with something else. */
export function record<T>(value: Schema<T>, refuse: (input: unknown) => Fault): Schema<Readonly<Record<string, T>>> {
  // To valibot a list is a record too.
  return v.lazy(input => {
    const message = faultMessage(refuse(input))
    return Array.isArray(input) ? v.never(message) : v.record(v.string(), value, message)
  }) as Schema<Readonly<Record<string, T>>>
}

function unknownKey(key: string, known: readonly string[]): Fault {
  const near = nearest(key, known)
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
