/** Whether a file was replaced or written to, without reading it: a tenth of the cost. */
import { type BigIntStats, statSync } from 'node:fs'
import { systemErrorCode } from '../text/system-error-code.ts'

/** Differs once the file was replaced or written to; two writes within some milliseconds may look like one. */
export function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join()
}

/** Differs if one of the files was replaced or written to; two writes within some milliseconds may look like one. */
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
