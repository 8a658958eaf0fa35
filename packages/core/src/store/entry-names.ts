/** The names of the files of a store: the hash of what they are about, what they hold, and in which form. */
import { hash } from 'node:crypto'
import { MAX_ROOTS_LENGTH } from '../contract/trust-anchor.ts'

/** In plain text, or sealed with the key of the store. */
export type EntryForm = 'pem' | 'sealed'

const ENTRY = /^[0-9a-f]{64}(?:\.pending|\.roots)?\.(pem|sealed)$/
/** For all the roots that a trust domain can have, with the facts beside them. */
export const MAX_ROOTS_FILE_BYTES = 2 * MAX_ROOTS_LENGTH

/** `id`: of an identity, or of a trust domain. */
export function nameOf(id: string, kind: '' | '.pending' | '.roots', form: EntryForm): string {
  return `${hash('sha256', id)}${kind}.${form}`
}

export function isEntry(name: string, form: EntryForm): boolean {
  return ENTRY.exec(name)?.[1] === form
}
