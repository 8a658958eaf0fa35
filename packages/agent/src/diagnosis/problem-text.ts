/** Wording of problems: counted nouns, and commands. */

/** `1 identity`, `10,000 identities`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${String(count).replace(THOUSANDS, ',')} ${count === 1 ? one : many}`
}

/** Used instead of Intl, whose data costs 4 MB of memory. */
const THOUSANDS = /\B(?=(?:\d{3})+$)/g

/** Quotes a word of a command that a person copies into a POSIX shell. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
