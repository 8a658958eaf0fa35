/**
 * How a stored file is written: a line with its kind and the SHA-256 of the rest, a line of JSON, then PEM blocks, which
 * `openssl` finds behind them. A file is one whole: a key cannot part from its certificate.
 */
import { hash } from 'node:crypto'
import { NO_WISH, wishText } from '../contract/certificate-wish.ts'
import { StoreError } from '../contract/store.ts'
import { MAX_ROOTS_LENGTH } from '../contract/trust-anchor.ts'
import { reasonOf } from './private-file.ts'

/** The contents of a file of the store. */
export type StoredKind = 'certificate' | 'pending' | 'roots'

const FORM = 'livery-store/1'
const NEWLINE = 0x0a

/** Files are in plain text, or sealed with the key of the store. */
export type EntryForm = 'pem' | 'sealed'

const ENTRY = /^[0-9a-f]{64}(?:\.pending|\.roots)?\.(pem|sealed)$/
/** All the roots that a trust domain can have fit, with the facts beside them. */
export const MAX_ROOTS_FILE_BYTES = 2 * MAX_ROOTS_LENGTH

/** The name of a file. `id`: of an identity, or of a trust domain. */
export function nameOf(id: string, kind: '' | '.pending' | '.roots', form: EntryForm): string {
  return `${hash('sha256', id)}${kind}.${form}`
}

export function isEntry(name: string, form: EntryForm): boolean {
  return ENTRY.exec(name)?.[1] === form
}

/** The facts beside the PEM blocks, none of them secret. */
export type StoredFacts = Readonly<Record<string, unknown>>

/** The bytes of a file. The caller wipes them, since `blocks` may hold a key. */
export function encodeStored(kind: StoredKind, facts: StoredFacts, blocks: readonly Uint8Array[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`${JSON.stringify(facts)}\n`)]
  for (const block of blocks) {
    parts.push(block)
    if (block.at(-1) !== NEWLINE) parts.push(Uint8Array.of(NEWLINE))
  }
  const body = Buffer.concat(parts)
  const file = Buffer.concat([Buffer.from(`${FORM} ${kind} ${hash('sha256', body)}\n`), body])
  body.fill(0)
  return file
}

/** Reads what `encodeStored` wrote; throws a {@link StoreError} if it is anything else. `pem` shares the memory of `file`. */
export function decodeStored(kind: StoredKind, file: Buffer): { readonly facts: StoredFacts; readonly pem: Buffer } {
  const headEnd = file.indexOf(NEWLINE)
  const [form, found, digest] = file.toString('latin1', 0, Math.min(Math.max(headEnd, 0), 200)).split(' ')
  if (form !== FORM) throw unusable(`is not in the form ${FORM}: another version or another program wrote it`)
  if (found !== kind) throw unusable(`is of another kind than ${kind}`)
  const body = file.subarray(headEnd + 1)
  if (hash('sha256', body) !== digest) throw unusable('is cut short or was changed: its checksum does not fit')
  const factsEnd = body.indexOf(NEWLINE)
  return { facts: parseFacts(body.toString('utf8', 0, factsEnd)), pem: body.subarray(factsEnd + 1) }
}

function parseFacts(line: string): StoredFacts {
  try {
    return JSON.parse(line)
  } catch {
    // The cause quotes the text that it could not parse.
    throw unusable('has no facts that can be read')
  }
}

/** A fact, if it has the right type. */
export function numberFact(facts: StoredFacts, key: string): number {
  const value = facts[key]
  if (typeof value !== 'number' || !Number.isFinite(value)) throw unusable(`has no ${key}`)
  return value
}

/** Files of versions before wishes have none. */
export function wishFact({ wish }: StoredFacts): string {
  return typeof wish === 'string' ? wish : wishText(NO_WISH)
}

export function unusable(reason: string): StoreError {
  return new StoreError('unusable-entry', reason)
}

/** Adds the path to the error of a file that cannot be used. */
export function locate<T>(path: string, decode: () => T): T {
  try {
    return decode()
  } catch (error) {
    throw new StoreError('unusable-entry', `${path} ${reasonOf(error)}`, { cause: error })
  }
}

/** Wipes a file's bytes once they were read, even after an error. */
export function wiping<T>(file: Buffer, decode: () => T): T {
  try {
    return decode()
  } finally {
    file.fill(0)
  }
}
