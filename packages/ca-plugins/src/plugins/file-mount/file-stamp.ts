/** Detects by inode, size and times whether files may have changed: reading them at each poll would cost ten times as much. */
import { statSync } from 'node:fs'
import { stampOf, systemErrorCode } from '@livery/core'

/** Another text if one of the files was replaced or written to; two writes within some milliseconds may look like one. */
export function stampsOf(files: readonly string[]): string {
  return files.map(stampOfOne).join(' ')
}

function stampOfOne(file: string): string {
  try {
    return stampOf(statSync(file, { bigint: true }))
  } catch (error) {
    return systemErrorCode(error) ?? String(error)
  }
}
