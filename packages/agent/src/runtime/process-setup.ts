/** Prepares the process: no core files, a vault for keys, warnings of what it lacks, garbage collection on demand. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Clock, KeyVault } from '@livery/core'
import { createKeyVault, disableCoreDumps, nativeCertificateVerifier } from '@livery/native-keygen'
import type { Logger } from '../observe/logger.ts'

export function keepOutOfCoreFiles(logger: Logger): void {
  try {
    disableCoreDumps?.()
  } catch (err) {
    logger.warn({ err }, 'a core file of this process would hold private keys: the kernel refused to turn them off')
  }
}

export function chooseKeyVault(logger: Logger): KeyVault {
  const { vault, reason } = createKeyVault()
  if (reason !== undefined) logger.warn(`${reason}.`)
  return vault
}

/** What is missing without the addon, whose judge of certificates is Envoy's own library; `undefined` with it. */
export const LESS_STRICT =
  nativeCertificateVerifier === undefined
    ? 'certificate paths are judged less strictly than Envoy does: without the native addon nobody looks at path lengths, name constraints and critical extensions'
    : undefined

export function warnOfLessStrictPaths(logger: Logger): void {
  if (LESS_STRICT !== undefined) logger.warn(`${LESS_STRICT}; build it with "npm run native"`)
}

/** A machine without a battery starts in 1970. Core waits: what a CA issues is not valid yet then, and is not served. */
export function warnOfUnsetClock(clock: Clock, logger: Logger): void {
  const now = clock.now()
  if (now < Date.UTC(2025, 0, 1))
    logger.warn(
      `the clock says ${new Date(now).toISOString()}: no certificate is valid until it is set, and none is served`,
    )
}

let gc: NodeJS.GCFunction | undefined

/** Collects all garbage at once. */
export function collectGarbage(): void {
  gc ??= globalThis.gc ?? exposedGc()
  void gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/**
 * What the option `--expose-gc` gives, without what it costs: V8 takes compiled code only under the flags that it was compiled under, so
 * that with the option each start compiles Node's own modules. The flag is back at once, for code that is compiled later.
 */
function exposedGc(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  try {
    return runInNewContext('gc')
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}
