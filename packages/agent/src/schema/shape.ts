/** Reads a schema back: which keys a value can have, and what their entries say. */
import type { KeyFacts, MakeAbsolute, Schema } from './schema-parts.ts'

/** The parts of a schema of valibot that are looked at, and what `key` and `withPath` have added. */
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

/** Without what is around it: an optional key, a form that is chosen by the input. */
export function unwrapped(schema: Shape, input: unknown): Shape {
  if (schema.wrapped) return unwrapped(schema.wrapped, input)
  return schema.getter ? unwrapped(schema.getter(input), input) : schema
}

export function factsOf({ facts, wrapped }: Shape): KeyFacts {
  return facts ?? (wrapped ? factsOf(wrapped) : {})
}
