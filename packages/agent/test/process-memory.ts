/** Private keys in the memory of a process: reads all that is writable of `/proc/PID/mem` and counts. */
import { createPrivateKey } from 'node:crypto'
import { type FileHandle, open, readFile } from 'node:fs/promises'

/** How often each form of a key was found. */
type KeyCopies = Readonly<Record<string, number>>

const CHUNK = 16 * 1024 * 1024
/** Longer than any form that is looked for. */
const OVERLAP = 4_096

/** The reason why this process cannot read the memory of others that are undumpable, as the agent is; `false` if it can. */
export const noProcessMemory: string | false =
  process.platform !== 'linux'
    ? 'there is no /proc/PID/mem on this system'
    : process.geteuid?.() === 0
      ? false
      : 'only root may read the memory of an agent'

/** Counts the copies of each of `keys` (PEM) in the memory of `pid`: one pass, however many keys. */
export async function countKeys(pid: number, keys: readonly string[]): Promise<readonly KeyCopies[]> {
  const patterns = keys.map(formsOf)
  const found = patterns.map(forms => Object.fromEntries(forms.map(([form]) => [form, 0])))
  await using memory = await open(`/proc/${pid}/mem`, 'r')
  const buffer = Buffer.alloc(CHUNK + OVERLAP)
  for (const [start, end] of await writableRanges(pid)) {
    for (let at = start; at < end; at += CHUNK) {
      const length = await readSome(memory, buffer, at, Math.min(end - at, CHUNK + OVERLAP))
      const view = buffer.subarray(0, length)
      patterns.forEach((forms, key) => {
        for (const [form, bytes] of forms) {
          const counts = found[key]
          if (counts) counts[form] = (counts[form] ?? 0) + occurrences(view, bytes, CHUNK)
        }
      })
    }
  }
  return found
}

/** Copies of a key, whatever its form: parts of the same copy count once. */
export function copies(found: KeyCopies | undefined): number {
  const most = (prefix: string): number =>
    Math.max(0, ...Object.entries(found ?? {}).flatMap(([form, count]) => (form.startsWith(prefix) ? [count] : [])))
  return most('text') + most('wide text') + most('bytes') + most('words')
}

async function writableRanges(pid: number): Promise<readonly (readonly [number, number])[]> {
  const maps = await readFile(`/proc/${pid}/maps`, 'utf8')
  return maps.split('\n').flatMap(line => {
    const [, start = '', end = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
    return start === '' ? [] : [[Number.parseInt(start, 16), Number.parseInt(end, 16)] as const]
  })
}

/** Unreadable memory (unmapped meanwhile, or closed to everybody) counts as empty. */
async function readSome(memory: FileHandle, buffer: Buffer, at: number, length: number): Promise<number> {
  let read = 0
  try {
    while (read < length) {
      const { bytesRead } = await memory.read(buffer, read, length - read, at + read)
      if (bytesRead === 0) break
      read += bytesRead
    }
  } catch {}
  return read
}

/** Counts the matches that begin before `limit`; later ones are found in the next chunk. */
function occurrences(view: Buffer, pattern: Buffer, limit: number): number {
  let count = 0
  for (let at = view.indexOf(pattern); at !== -1 && at < limit; at = view.indexOf(pattern, at + 1)) count++
  return count
}

/** Pieces of a key that are nowhere but in the key. */
function formsOf(pem: string): readonly (readonly [string, Buffer])[] {
  const jwk = createPrivateKey(pem).export({ format: 'jwk' })
  const secrets = [jwk.d, jwk.p, jwk.q].flatMap(text => (text === undefined ? [] : [Buffer.from(text, 'base64url')]))
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')
  return secrets.flatMap((secret, number) => {
    const piece = secret.subarray(secret.length > 64 ? 32 : 0).subarray(0, 32)
    const text = base64In(pem, der.indexOf(piece), piece.length)
    return [
      [`text ${number}`, Buffer.from(text, 'latin1')],
      [`wide text ${number}`, Buffer.from(text, 'utf16le')],
      ...[0, 1, 2].map(shift => [`text ${number}, ${shift} bytes further`, shifted(piece, shift)] as const),
      [`bytes ${number}`, piece],
      // As a library for big numbers keeps them.
      [`words ${number}`, Buffer.from(piece).reverse()],
    ] as const
  })
}

/** The longest run in one line of the PEM that holds nothing but the `length` secret bytes at `start` of the DER. */
function base64In(pem: string, start: number, length: number): string {
  const [from, to] = [Math.ceil((start * 4) / 3), Math.floor(((start + length) * 4) / 3)]
  const body = pem.split('\n').slice(1, -2)
  const runs = body.map((line, row) => line.slice(Math.max(0, from - row * 64), Math.max(0, to - row * 64)))
  return runs.toSorted((a, b) => b.length - a.length)[0] ?? ''
}

/** The secret as base64 at another place of a text without line breaks. */
function shifted(piece: Buffer, shift: number): Buffer {
  const text = Buffer.concat([Buffer.alloc(shift), piece]).toString('base64')
  return Buffer.from(text.slice(4, 4 + 32), 'latin1')
}
