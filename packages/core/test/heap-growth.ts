/** How much JavaScript heap something keeps. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
export const collectGarbage: NodeJS.GCFunction = runInNewContext('gc')

/** Collects the young objects, as V8 does all the time, until those that were in use before are old. */
export function collectYoung(): void {
  for (let round = 0; round < 3; round++) collectGarbage({ type: 'minor' })
}

/** Bytes that `work` still holds when it has returned. */
export function heapGrowth(work: () => void): number {
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  work()
  collectGarbage()
  return process.memoryUsage().heapUsed - before
}
