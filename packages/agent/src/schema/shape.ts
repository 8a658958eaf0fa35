/** Reads a schema back: the keys of a value, and the facts of their entries. */
import type { KeyFacts, MakeAbsolute, Schema } from './schema-parts.ts'

/** The parts of a valibot schema that are read, and the additions of `key` and `withPath`. */
export interface Shape extends Schema<unknown> {
  /** The schema of `input`, or of any value. */
  readonly getter?: (input: unknown) => Shape
  readonly wrapped?: Shape
  /** The keys of a mapping. */
  readonly entries?: Readonly<Record<string, Shape>>
  /** The elements of a list. */
  readonly item?: Shape
  readonly items?: readonly Shape[]
  /** The values of a mapping whose names are free. */
  readonly value?: Shape
  readonly facts?: KeyFacts
  readonly makeAbsolute?: MakeAbsolute
}

/** The inner schema of an optional key, or of a form that is chosen by the input. */
export function unwrapped(schema: Shape, input: unknown): Shape {
  if (schema.wrapped) return unwrapped(schema.wrapped, input)
  return schema.getter ? unwrapped(schema.getter(input), input) : schema
}

export function factsOf({ facts, wrapped }: Shape): KeyFacts {
  return facts ?? (wrapped ? factsOf(wrapped) : {})
}
