/** Words of a problem: numbers of things, and commands. */

/** `1 identity`, `10,000 identities`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${NUMBERS.format(count)} ${count === 1 ? one : many}`
}

const NUMBERS = new Intl.NumberFormat('en')

/** A word of a command that a person copies into a POSIX shell. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
