/**
 * The sealed files of a store, and the newest version of each: an older copy of one that is put back is not read. The
 * versions are in sixteen small index files, so that one renewal among thousands rewrites a sixteenth of them.
 */
import { join } from 'node:path'
import { StoreError } from '../contract/store.ts'
import { systemErrorCode } from '../text/system-error-code.ts'
import type { Clock } from '../time/clock.ts'
import { readPrivateFile, reasonOf, replaceFile } from './private-file.ts'
import type { StoreKey } from './store-key.ts'
import { locate, unusable } from './stored-form.ts'

/** The mark is there once a store is sealed: a plain file that appears later is not taken for the store's. */
const MARK = 'store.sealed'
/** A million identities, the most that an agent holds, have some 90 bytes each, in sixteen files. */
const MAX_INDEX_BYTES = 16 * 1024 * 1024

export function isSealed(names: readonly string[]): boolean {
  return names.includes(MARK)
}

/** The versions of the entries whose names begin with the same digit. */
interface Index {
  readonly name: string
  /** The highest version when it was written. An entry that it does not list is newer, or was removed. */
  readonly writtenAt: number
  /** The highest version so far. */
  highest: number
  readonly generations: Map<string, number>
}

interface StoredIndex {
  readonly highest: number
  readonly generations: readonly (readonly [string, number])[]
}

/** A file on disk with its version; a removed file has none. */
export interface Written {
  readonly name: string
  readonly generation?: number | undefined
}

export class SealedEntries {
  /** Whether the store was sealed before this process. */
  readonly isMarked: boolean
  readonly #directory: string
  readonly #key: StoreKey
  readonly #clock: Clock
  readonly #indexes = new Map<string, Promise<Index>>()

  private constructor(directory: string, key: StoreKey, clock: Clock, isMarked: boolean) {
    this.#directory = directory
    this.#key = key
    this.#clock = clock
    this.isMarked = isMarked
  }

  /** Rejects with a {@link StoreError} `unusable-directory`, and changes nothing, if the store was sealed with another key. */
  static async open(directory: string, key: StoreKey, clock: Clock): Promise<SealedEntries> {
    const path = join(directory, MARK)
    try {
      const mark = await readPrivateFile(path, 'ours')
      if (mark) locate(path, () => key.unseal(MARK, mark))
      return new SealedEntries(directory, key, clock, mark !== undefined)
    } catch (cause) {
      const remedy = `Put the former key back; or, to have the CA asked for every identity, remove ${directory}`
      const message = `Cannot use the store in ${directory}: ${reasonOf(cause)}. ${remedy}.`
      throw new StoreError('unusable-directory', message, { cause })
    }
  }

  /** Makes the next process accept sealed files only. */
  async mark(): Promise<void> {
    await replaceFile(join(this.#directory, MARK), this.#key.seal(MARK, 0, new Uint8Array()))
  }

  /** The content of `file`, the file of this name. Rejects with a {@link StoreError} if it is not the newest. */
  async unseal(name: string, file: Buffer): Promise<Buffer> {
    const index = await this.#indexOf(name)
    return locate(join(this.#directory, name), () => {
      const { generation, bytes } = this.#key.unseal(name, file)
      const newest = index.generations.get(name)
      if (generation < (newest ?? index.writtenAt + 1)) {
        bytes.fill(0)
        throw unusable('is not the newest: an older copy was put in its place, or the index of the store was lost')
      }
      // The process ended between the two files.
      note(index, { name, generation })
      return bytes
    })
  }

  /** `bytes` sealed as the newest version of the file, which it is after `commit`. */
  async seal(name: string, bytes: Uint8Array): Promise<{ readonly file: Buffer; readonly generation: number }> {
    const index = await this.#indexOf(name)
    index.highest++
    return { file: this.#key.seal(name, index.highest, bytes), generation: index.highest }
  }

  /** Resolves when the index files list the written versions; the caller makes that outlive a power failure. */
  async commit(all: readonly Written[]): Promise<void> {
    const changed = new Set<Index>()
    for (const written of all) {
      const index = await this.#indexOf(written.name)
      note(index, written)
      changed.add(index)
    }
    for (const { name, highest, generations } of changed) {
      const text = Buffer.from(JSON.stringify({ highest, generations: [...generations] }))
      await replaceFile(join(this.#directory, name), this.#key.seal(name, highest, text))
    }
  }

  /** Another process may have changed the files. */
  refresh(): void {
    this.#indexes.clear()
  }

  #indexOf(name: string): Promise<Index> {
    const indexName = `index-${name[0]}.sealed`
    const index = this.#indexes.get(indexName) ?? this.#readIndex(indexName)
    this.#indexes.set(indexName, index)
    return index
  }

  async #readIndex(name: string): Promise<Index> {
    try {
      const file = await readPrivateFile(join(this.#directory, name), 'ours', MAX_INDEX_BYTES)
      if (file) {
        const { highest, generations }: StoredIndex = JSON.parse(String(this.#key.unseal(name, file).bytes))
        return { name, writtenAt: highest, highest, generations: new Map(generations) }
      }
    } catch (error) {
      // A later read may succeed. A changed or truncated index is lost, and each of its entries reports that.
      if (error instanceof StoreError && systemErrorCode(error.cause) !== undefined) {
        this.#indexes.delete(name)
        throw error
      }
    }
    // Higher than every earlier version: an entry of a lost index must not pass for new.
    const now = this.#clock.now()
    return { name, writtenAt: now, highest: now, generations: new Map() }
  }
}

function note(index: Index, { name, generation }: Written): void {
  if (generation === undefined) {
    index.generations.delete(name)
    return
  }
  index.generations.set(name, generation)
  index.highest = Math.max(index.highest, generation)
}
