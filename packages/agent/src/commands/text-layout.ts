/** Lines for a terminal: columns, wrapped text, times, JSON. */
import { oneLine } from '@livery/core/plugin'
import { formatAge } from '../observe/format-age.ts'

/** Columns as wide as their widest cell, two spaces apart. Nothing in a cell breaks its line. */
export function layOut(rows: readonly (readonly string[])[]): string[] {
  const all = rows.map(cells => cells.map(oneLine))
  const widths: number[] = []
  for (const cells of all)
    for (const [column, cell] of cells.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length)
  return all.map(cells =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** Text as indented lines of at most `width` characters; a longer word gets more than one. */
export function wrap(text: string, width: number, indent = '  '): string[] {
  const room = Math.max(1, width - indent.length)
  const words = oneLine(text)
    .split(' ')
    .flatMap(word => (word.length <= room ? [word] : (word.match(new RegExp(`.{1,${room}}`, 'gu')) ?? [])))
  const lines: string[] = []
  let line = ''
  for (const word of words) {
    if (line !== '' && line.length + 1 + word.length > room) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map(each => indent + each)
}

/** `1 stream`, `2 streams`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`
}

/** `2026-01-01T00:00:00Z (in 3h00m)`; `time` is RFC 3339, `now` milliseconds since the epoch. */
export function when(time: string, now: number): string {
  return `${time.replace(/\.\d+Z$/, 'Z')} (${distance(time, now)})`
}

/** `in 3h00m`, or `5m00s ago`. */
export function distance(time: string, now: number): string {
  const ms = Date.parse(time) - now
  return ms >= 0 ? `in ${formatAge(ms)}` : `${formatAge(-ms)} ago`
}

/** JSON as a terminal can print it: an escape in it means the same as the character. */
export function printableJson(value: unknown): string {
  const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, undefined, 2).replace(/[^\n\x20-\x7e]/g, escaped)
}
