/** Prepares the process: no core files, a vault for keys, warnings about what is missing. */
import type { KeyVault } from '@livery/core'
import type { Clock } from '@livery/core/plugin'
import { createKeyVault, disableCoreDumps, nativeCertificateVerifier } from '@livery/native-keygen'
import type { Logger } from '../observe/logger.ts'

export function keepOutOfCoreFiles(logger: Logger): void {
  try {
    disableCoreDumps?.()
  } catch (err) {
    logger.warn({ err }, 'a core file of this process would hold private keys: the kernel refused to turn them off')
  }
}

/** The checks that are missing without the addon, which judges as Envoy's own library does; `undefined` with it. */
export const LESS_STRICT =
  nativeCertificateVerifier === undefined
    ? 'without the native addon Livery does not check path lengths, name constraints and critical extensions of a chain: Envoy may refuse one that Livery accepts'
    : undefined

/** One warning for all that the addon would do. */
export function chooseKeyVault(logger: Logger): KeyVault {
  const { vault, reason, remedy } = createKeyVault()
  if (reason === undefined) return vault
  const withoutAddon =
    LESS_STRICT && `WebCrypto makes the keys, slower, and they are not sealed in memory; ${LESS_STRICT}`
  logger.warn([reason, withoutAddon, remedy].flatMap(text => (text === undefined ? [] : [`${text}.`])).join(' '))
  return vault
}

/** A machine without a battery starts in 1970. Core waits: new certificates are not valid yet then, and are not served. */
export function warnOfUnsetClock(clock: Clock, logger: Logger): void {
  const now = clock.now()
  if (now < Date.UTC(2025, 0, 1))
    logger.warn(
      `the clock says ${new Date(now).toISOString()}: no certificate is valid until it is set, and none is served`,
    )
}
