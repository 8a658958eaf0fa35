/** Finds the name that was probably meant: its last segment is the same, or nearly so. */
import { nearest } from '../schema/schema-parts.ts'

/** Limit of compared letter pairs, about 3 ms: an answer must not block the agent. */
const MAX_PAIRS = 50_000
/** Candidates with the same last segment, such as one account in each namespace. */
const MAX_SAME = 100
/** A shorter text is similar to everything. */
const MIN_LENGTH = 3
const MAX_LENGTH = 64
const MAX_MISSING = 2

/** `undefined` where none is near, or several are equally near. `names` are those that the caller is allowed to know. */
export function similarName(asked: string, names: Iterable<string>): string | undefined {
  const [parent, wanted] = split(asked)
  if (wanted.length > MAX_LENGTH) return undefined
  const room = MAX_PAIRS / wanted.length ** 2
  const same: string[] = []
  const near = new Map<string, string>()
  for (const name of names) {
    const [above, last] = split(name)
    if (last === wanted && same.length < MAX_SAME) same.push(name)
    else if (isComparable(last, wanted) && (near.has(last) ? above === parent : near.size < room)) near.set(last, name)
  }
  if (same.length > 0) return same.length === 1 ? same[0] : nearest(asked, same)
  return near.get(nearest(wanted, [...near.keys()]) ?? '')
}

/** ` Did you mean …?`, or nothing. */
export function didYouMean(asked: string, names: Iterable<string>): string {
  const similar = similarName(asked, names)
  return similar === undefined ? '' : ` Did you mean ${similar}?`
}

/** The part before the last segment, and that segment; trailing slashes do not count. */
function split(name: string): readonly [string, string] {
  let end = name.length
  while (end > 0 && name[end - 1] === '/') end--
  const start = name.lastIndexOf('/', end - 1) + 1
  return [name.slice(0, start), name.slice(start, end)]
}

/** About the same length, and the same first or last letter: most slips keep one of them. */
function isComparable(segment: string, wanted: string): boolean {
  if (wanted.length < MIN_LENGTH || Math.abs(segment.length - wanted.length) > MAX_MISSING) return false
  const [a, b] = [segment.toLowerCase(), wanted.toLowerCase()]
  return a[0] === b[0] || a.at(-1) === b.at(-1)
}
