/** The secrets that callers may name by their files, and the folders in which these can be. */
import {
  type Clock,
  type Events,
  FILE_DEFAULTS,
  FileSecrets,
  foldersOf,
  isFileName,
  type KeyVault,
  parseFilePattern,
  type SecretReport,
} from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'

interface FileSecretsParts {
  readonly clock: Clock
  readonly vault: KeyVault
  readonly logger: Logger
  readonly events: Events<SecretReport>
}

export function openFileSecrets(config: Config, { clock, vault, logger, events }: FileSecretsParts): FileSecrets {
  const { expired } = config.files
  return new FileSecrets({
    clock,
    vault,
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    folders: allowedFolders(config),
    expired,
    onWatchError: err =>
      logger.warn(
        { err },
        `cannot watch the files that are named: they are looked at every ${FILE_DEFAULTS.pollMs / 1000} s. Raise fs.inotify.max_user_watches or max_user_instances`,
      ),
    report: (name, event) => events.emit({ name, time: clock.now(), event }),
  })
}

/** `files.allow`, or the well-known folders and those that the rules of the sockets name. */
export function allowedFolders({ files, sockets, identities }: Config): readonly string[] {
  if (files.allow) return files.allow
  const rules = [
    ...sockets.flatMap(({ allow, callers = [] }) => [...allow, ...callers.flatMap(caller => caller.allow ?? [])]),
    ...identities.flatMap(({ socket }) => socket?.allow ?? []),
  ]
  const patterns = [...new Set(rules)].filter(isFileName).map(parseFilePattern)
  const named = patterns.flatMap(pattern => (typeof pattern === 'string' ? [] : foldersOf(pattern)))
  return [...new Set([...files.wellKnown, ...named])]
}
