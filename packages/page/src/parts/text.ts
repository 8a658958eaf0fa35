/** Times, numbers and names in the page's form. */
import { formatAge } from '../../../agent/src/observe/format-age.ts'

/** `03:12:09 UTC`, with the day if it is not the day of `now`: the log's form, so that both can be compared. */
export function formatTime(time: number, now: number): string {
  const text = new Date(time).toISOString()
  const clock = `${text.slice(11, 19)} UTC`
  return text.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? clock : `${text.slice(0, 10)} ${clock}`
}

/** `in 4h12m`, `3m07s ago`. */
export function formatDistance(time: number, now: number): string {
  return time >= now ? `in ${formatAge(time - now)}` : `${formatAge(now - time)} ago`
}

const NUMBERS = new Intl.NumberFormat('en')

/** `10,000`. */
export function formatCount(count: number): string {
  return NUMBERS.format(count)
}

/** `1 identity`, `2 identities`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** `412 MB`. */
export function formatBytes(bytes: number): string {
  return bytes < 1e6 ? `${formatCount(Math.ceil(bytes / 1e3))} kB` : `${formatCount(Math.round(bytes / 1e6))} MB`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be shown as they are
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** Text from others; characters that are invisible, or that turn the text around them, are written out. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, character => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)
}

/** Quotes a word of a command that a person copies into a POSIX shell. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Splits a SPIFFE ID into the part that most names share, and the rest. */
export function splitName(name: string): readonly [shared: string, own: string] {
  const end = /^spiffe:\/\/[^/]+/.exec(name)?.[0].length ?? 0
  return [name.slice(0, end), name.slice(end)]
}
