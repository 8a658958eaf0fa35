/** Reads a JSON object from a text that a peer sent. */

/** A list of a hundred issuers has a few hundred values. */
export const MAX_VALUES = 10_000

const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

/** `undefined` if the text is not an object or has more values: a million brackets take a hundred times as long to parse as a long text. */
export function jsonObject(text: string, maxValues = MAX_VALUES): Readonly<Record<string, unknown>> | undefined {
  if (hasMoreValues(text, maxValues)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Counts brackets, braces and commas. */
export function hasMoreValues(text: string, max: number): boolean {
  let marks = 0
  for (let index = 0; index < text.length && marks <= max; index++) {
    const code = text.charCodeAt(index)
    if (code === COMMA || code === BRACKET || code === BRACE) marks++
  }
  return marks > max
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
