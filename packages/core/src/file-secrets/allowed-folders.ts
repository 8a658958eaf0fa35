/** The folders in which files may be named: a file that is read is below one of them, even through links. */
import { accessSync, constants, fstatSync, realpathSync, type Stats, statSync } from 'node:fs'
import { lstat, readlink, realpath } from 'node:fs/promises'
import { readSmallFile } from '../files/changing-file.ts'
import { checkFile, UntrustedPathError } from '../files/trusted-path.ts'
import { systemErrorCode } from '../text/system-error-code.ts'
import { FileFault, readFault } from './file-fault.ts'
import { MAX_FILE_BYTES } from './key-pair.ts'

export class AllowedFolders {
  readonly #folders: readonly string[]

  /** `folders`: absolute paths, which need not exist. */
  constructor(folders: readonly string[]) {
    this.#folders = folders
  }

  /** Why `file` cannot be read at this moment; `undefined` if it seems readable. Does not read it. */
  problem(file: string): string | undefined {
    try {
      this.#check(file, realpathSync(file))
      const stats = statSync(file)
      checkStats(file, stats)
      checkFile(file, stats, { owners: 'delegated' })
      accessSync(file, constants.R_OK)
      return undefined
    } catch (error) {
      return (error instanceof FileFault ? error : readFault(file, error, false)).message
    }
  }

  /** The content of `file`; rejects with what {@link readFault} can name. */
  read(file: string): Promise<Buffer> {
    return readSmallFile(file, MAX_FILE_BYTES, async descriptor => this.#check(file, await pathOf(descriptor, file)))
  }

  #check(file: string, real: string): void {
    if (this.#folders.some(folder => isBelow(real, realOf(folder)))) return
    throw new FileFault({
      file,
      reason:
        real === file
          ? 'it is in no folder of files.allow'
          : `it leads to ${real}, which is in no folder of files.allow`,
      remedy: 'Add the folder to files.allow, or name another file',
    })
  }
}

/** The real path of a folder, which may itself be a link. */
function realOf(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}

function isBelow(file: string, folder: string): boolean {
  return file.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

function checkStats(file: string, stats: Stats): void {
  const remedy = 'Put a PEM file there'
  if (!stats.isFile()) throw new FileFault({ file, reason: 'it is not a regular file', remedy })
  if (stats.size > MAX_FILE_BYTES)
    throw new FileFault({ file, reason: `it has ${stats.size} bytes, more than ${MAX_FILE_BYTES}`, remedy })
}

/** The real path of the opened file: from the kernel on Linux, elsewhere by following the path again. */
async function pathOf(descriptor: number, file: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${descriptor}`)
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT') throw error
  }
  const real = await realpath(file)
  const [found, read] = [await lstat(real), fstatSync(descriptor)]
  if (found.dev === read.dev && found.ino === read.ino) return real
  throw new UntrustedPathError(file, `${file} was replaced while it was opened.`)
}
