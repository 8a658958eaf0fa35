/** Reads a JSON object from a text that a peer sent. */

/** Brackets, braces and commas: a list of a hundred issuers has a few hundred. */
const MAX_MARKS = 10_000

const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

/** `undefined` if the text is not an object, or has more than 10,000 values: parsing a million brackets takes a hundred times as long as a long text. */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | undefined {
  if (marksOf(text) > MAX_MARKS) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

function marksOf(text: string): number {
  let marks = 0
  for (let index = 0; index < text.length && marks <= MAX_MARKS; index++) {
    const code = text.charCodeAt(index)
    if (code === COMMA || code === BRACKET || code === BRACE) marks++
  }
  return marks
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
