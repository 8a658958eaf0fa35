/** The ledger as lines, for `livery explain`. */
import { formatAge } from './format-age.ts'
import type { LedgerEntry } from './ledger.ts'

/** An event with the sentence of the agent that reported it: another version may have events that this one does not know. */
export type ToldEntry = LedgerEntry & { readonly text: string }

/** The ledger with ages, oldest first, one line per event; a repeated text of the CA is written once. */
export function describeLedger(entries: readonly ToldEntry[], now: number): string[] {
  const ages = entries.map(({ time }) => `${formatAge(now - time)} ago`)
  const width = Math.max(0, ...ages.map(age => age.length))
  const seen = new Set<string>()
  return entries.map(({ event, text: sentence, count = 1 }, index) => {
    const times = count > 1 ? `${count} times, last: ` : ''
    const text = event.kind === 'ca-error' && seen.has(event.message) ? sentence.replace(event.message, SAME) : sentence
    if (event.kind === 'ca-error') seen.add(event.message)
    return `${(ages[index] ?? '').padStart(width)}  ${times}${text}`
  })
}

const SAME = 'with the same text as above'
