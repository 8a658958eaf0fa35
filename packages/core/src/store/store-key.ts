/** The key file of a store, and the form of a sealed file: AES-256-GCM, bound to the file's name and version. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { fstatSync } from 'node:fs'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import { StoreError } from '../contract/store.ts'
import { readSmallFile } from '../files/changing-file.ts'
import { reasonOf } from './private-file.ts'
import { unusable } from './stored-form.ts'

const KEY_BYTES = 32
/** Enough for an error to name the length of a key in another form, such as hex. */
const MAX_KEY_FILE_BYTES = 4_096
const OTHERS = 0o007
const GROUP_READS = 0o040

const FORM = 'livery-sealed/1'
const NEWLINE = 0x0a
const SALT_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const CIPHER = 'aes-256-gcm'
/** The most by which a sealed file is longer than what is in it. */
export const SEAL_OVERHEAD = 128

/** Rejects with a {@link StoreError} `unusable-key` if the file is not 32 bytes that only root and this user have. */
export async function readStoreKey(path: string): Promise<Buffer> {
  let key: Buffer
  try {
    key = await readSmallFile(path, MAX_KEY_FILE_BYTES, async descriptor => checkSecret(descriptor))
  } catch (error) {
    throw unusableKey(path, `cannot be used: ${reasonOf(error)}`, error)
  }
  if (key.length === KEY_BYTES) return key
  const { length } = key
  key.fill(0)
  throw unusableKey(path, `has ${length} bytes, not ${KEY_BYTES}`)
}

function checkSecret(descriptor: number): void {
  const { uid, gid, mode } = fstatSync(descriptor)
  const self = process.geteuid?.()
  if (self === undefined) return
  if (uid !== self && uid !== 0) throw new Error(`it belongs to uid ${uid}, neither root nor ${self}`)
  // A credential of systemd and a Secret of Kubernetes are root's, and readable for the agent by its group.
  const isForeignGroup = gid !== 0 && gid !== process.getegid?.() && !process.getgroups?.().includes(gid)
  if (mode & OTHERS || (mode & GROUP_READS && isForeignGroup))
    throw new Error(`others can read it (mode ${(mode & 0o7777).toString(8).padStart(4, '0')}): its key may be known`)
}

function unusableKey(path: string, reason: string, cause?: unknown): StoreError {
  const remedy = `Write ${KEY_BYTES} random bytes there, for the agent's user alone: (umask 077; head -c ${KEY_BYTES} /dev/urandom > ${path})`
  return new StoreError('unusable-key', `store.keyFile ${path} ${reason}. ${remedy}`, { cause })
}

/** The key of one store, sealed in memory. */
export class StoreKey {
  readonly #key: SealedKey
  /** Identifies the key without revealing it. */
  readonly #id: string

  /** Wipes `key`. */
  constructor(key: Buffer, vault: KeyVault) {
    this.#id = Buffer.from(hkdfSync('sha256', key, '', 'livery store key id', 8)).toString('hex')
    this.#key = new SealedKey(vault, key)
  }

  /** `bytes` in the form of a sealed file of this name. `generation`: the file's version. */
  seal(name: string, generation: number, bytes: Uint8Array): Buffer {
    const head = Buffer.from(`${FORM} ${this.#id} ${generation}\n`)
    const salt = randomBytes(SALT_BYTES)
    return this.#derive(salt, (key, nonce) => {
      const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.concat([head, Buffer.from(name)]))
      const text = cipher.update(bytes)
      cipher.final()
      return Buffer.concat([head, salt, text, cipher.getAuthTag()])
    })
  }

  /** Throws a {@link StoreError} if `file` is not, to the bit, what this key has sealed under this name. */
  unseal(name: string, file: Buffer): { readonly generation: number; readonly bytes: Buffer } {
    const headEnd = file.subarray(0, SEAL_OVERHEAD).indexOf(NEWLINE) + 1
    const [form, id, generation = ''] = file.toString('latin1', 0, Math.max(headEnd - 1, 0)).split(' ')
    if (form !== FORM) throw unusable(`is not in the form ${FORM}: another version or another program wrote it`)
    if (id !== this.#id) throw unusable('is sealed with another key than store.keyFile has')
    const saltEnd = headEnd + SALT_BYTES
    const tagStart = file.length - TAG_BYTES
    if (tagStart < saltEnd) throw unusable('is cut short')
    return this.#derive(file.subarray(headEnd, saltEnd), (key, nonce) => {
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
        .setAAD(Buffer.concat([file.subarray(0, headEnd), Buffer.from(name)]))
        .setAuthTag(file.subarray(tagStart))
      const bytes = decipher.update(file.subarray(saltEnd, tagStart))
      try {
        decipher.final()
      } catch {
        bytes.fill(0)
        throw unusable('was changed, is cut short, or is the file of another entry: its seal does not fit')
      }
      return { generation: Number(generation), bytes }
    })
  }

  /** A separate key and nonce for each file: none ever repeats, whatever the number of files, nodes and years. */
  #derive<T>(salt: Uint8Array, use: (key: Uint8Array, nonce: Uint8Array) => T): T {
    const derived = this.#key.open(key =>
      Buffer.from(hkdfSync('sha256', key, salt, 'livery store file', KEY_BYTES + NONCE_BYTES)),
    )
    try {
      return use(derived.subarray(0, KEY_BYTES), derived.subarray(KEY_BYTES))
    } finally {
      derived.fill(0)
    }
  }
}
