/** What tells, without reading them, whether files may have changed: for polls, which would cost ten times as much. */
import { statSync } from 'node:fs'

/** Another text if one of the files was replaced or written to; two writes within some milliseconds may look like one. */
export function stampOf(files: readonly string[]): string {
  return files.map(stampOfOne).join(' ')
}

function stampOfOne(file: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true })
    return [dev, ino, size, mtimeNs, ctimeNs].join()
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error)
  }
}
