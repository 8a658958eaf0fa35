/** The module `files`: secrets that callers name by their location, and certificates in well-known folders. */
import {
  FILE_DEFAULTS,
  FileSecrets,
  foldersOf,
  isFileName,
  type PodTokenSource,
  parseFilePattern,
  type SecretObjects,
} from '@livery/core/file-secrets'
import type { CAClient } from '@livery/core/plugin'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import type { Config } from '../config/load.ts'
import type { Basis } from '../life/basis.ts'
import { withWellKnownFiles } from './well-known-files.ts'

interface Needs extends Basis {
  readonly ca: CAClient
  readonly objects?: SecretObjects | undefined
  readonly pods?: { readonly callerTokens: PodTokenSource } | undefined
}

export const files = {
  name: 'files',
  async open(made: Needs) {
    const ca = await withWellKnownFiles(made)
    const files = made.life.parts.use(openFileSecrets(made))
    made.reloads.subscribe(config => files.useFolders(allowedFolders(config)))
    return { ca, files }
  },
}

function openFileSecrets({ config, clock, vault, scopes, events, objects, pods }: Needs): FileSecrets {
  const { expired } = config.files
  return new FileSecrets({
    clock,
    vault,
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    folders: allowedFolders(config),
    ...(objects && { objects }),
    ...(pods && { tokens: pods.callerTokens }),
    expired,
    onWatchError: err =>
      scopes
        .of('files')
        .warn(
          { err },
          `cannot watch the files that callers name: they are read every ${FILE_DEFAULTS.pollMs / 1000} s. Raise fs.inotify.max_user_watches or max_user_instances`,
        ),
    report: (name, event) => events.emit({ name, time: clock.now(), event }),
  })
}

/** `files.allow`, or the well-known folders and the folders in the sockets' rules. */
function allowedFolders({ files, sockets, identities }: Config): readonly string[] {
  if (files.allow) return files.allow
  const rules = [
    ...sockets.flatMap(({ allow, callers = [] }) => [...allow, ...callers.flatMap(caller => caller.allow ?? [])]),
    ...identities.flatMap(({ socket }) => socket?.allow ?? []),
  ]
  const patterns = [...new Set(rules)].filter(isFileName).map(parseFilePattern)
  const named = patterns.flatMap(pattern => (typeof pattern === 'string' ? [] : foldersOf(pattern)))
  return [...new Set([...files.wellKnown, ...named])]
}
