/** Seals or wipes the plain files of a store that gets sealed now, or was before. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreError } from '../contract/store.ts'
import { Semaphore } from '../time/semaphore.ts'
import { readPrivateFile, reasonOf, replaceFile, syncFolder, wipeFile } from './private-file.ts'
import type { SealedEntries, Written } from './sealed-entries.ts'
import { isEntry, MAX_ROOTS_FILE_BYTES } from './stored-form.ts'

/** The agent serves nobody yet, so nothing else needs the disk. */
const AT_ONCE = 4

/**
 * Seals the plain files if the store was never sealed, and wipes them once the sealed ones are on disk. Plain files beside
 * sealed ones are not the store's, and are wiped. Resolves with the failures; rejects with a {@link StoreError}
 * `unusable-directory`, before anything is wiped, if the disk does not take the sealed files.
 */
export async function movePlainEntries(
  directory: string,
  found: readonly string[],
  sealed: SealedEntries,
): Promise<readonly string[]> {
  const plain = found.filter(name => isEntry(name, 'pem'))
  const warnings: string[] = []
  if (!sealed.isMarked) warnings.push(...(await sealAll(directory, plain, sealed)))
  else if (plain.length > 0)
    warnings.push(`${directory} is sealed: what was in it in plain text is not used, and removed`)
  await each(plain, async name => {
    const path = join(directory, name)
    try {
      await wipeFile(path)
      await rm(path, { force: true })
    } catch (error) {
      warnings.push(`${path} is in plain text and cannot be removed: ${reasonOf(error)}`)
    }
  })
  return warnings
}

async function sealAll(directory: string, plain: readonly string[], sealed: SealedEntries): Promise<readonly string[]> {
  const warnings: string[] = []
  const written: Written[] = []
  try {
    await each(plain, async name => {
      try {
        written.push(...(await sealOne(directory, name, sealed)))
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
        warnings.push(`${error.message}. It is not sealed, and the CA is asked`)
      }
    })
    await sealed.commit(written)
    // The mark says that no plain file is needed any longer.
    await syncFolder(directory)
    await sealed.mark()
    await syncFolder(directory)
  } catch (error) {
    const reason = `Cannot seal the store in ${directory}: ${reasonOf(error)}`
    if (plain.length === 0) return [reason]
    const remedy = 'It stays as it was, in plain text. Make room there, or let this user write to it.'
    throw new StoreError('unusable-directory', `${reason}. ${remedy}`, { cause: error })
  }
  return warnings
}

async function sealOne(directory: string, name: string, sealed: SealedEntries): Promise<readonly Written[]> {
  const bytes = await readPrivateFile(join(directory, name), 'ours', MAX_ROOTS_FILE_BYTES)
  if (!bytes) return []
  try {
    const sealedName = name.replace(/pem$/, 'sealed')
    const { file, generation } = await sealed.seal(sealedName, bytes)
    await replaceFile(join(directory, sealedName), file)
    return [{ name: sealedName, generation }]
  } finally {
    bytes.fill(0)
  }
}

async function each(names: readonly string[], task: (name: string) => Promise<void>): Promise<void> {
  const disk = new Semaphore(AT_ONCE)
  await Promise.all(names.map(name => disk.run(() => task(name))))
}
