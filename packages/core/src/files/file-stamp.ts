/** Whether a file is another one or was written to, without reading it: a tenth of the cost. */
import type { BigIntStats } from 'node:fs'

/** Differs once another file is at the path, or the same one was written to; two writes within some milliseconds may look like one. */
export function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join()
}
