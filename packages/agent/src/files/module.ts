/** The module `files`: secrets that callers name by their files, and certificates in well-known folders. */
import { type CAClient, FileSecrets } from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import type { Basis, Module } from '../life/module.ts'
import { allowedFolders } from './allowed-folders.ts'
import { withWellKnownFiles } from './well-known-files.ts'

interface Needs extends Basis {
  readonly ca: CAClient
}

interface Gives {
  /** With the certificates of well-known folders before it. */
  readonly ca: CAClient
  readonly files: FileSecrets
}

export const files: Module<Needs, Gives> = {
  async open(made) {
    const { reloads, life } = made
    const ca = await withWellKnownFiles(made)
    const opened = life.parts.use(openFileSecrets(made))
    reloads.subscribe(config => opened.useFolders(allowedFolders(config)))
    return { ca, files: opened }
  },
}

function openFileSecrets({ config, clock, vault, scopes, events }: Needs): FileSecrets {
  const { expired, poll } = config.files
  return new FileSecrets({
    clock,
    vault,
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    folders: allowedFolders(config),
    expired,
    pollMs: poll,
    onWatchError: err =>
      scopes
        .of('files')
        .warn(
          { err },
          `cannot watch the files that are named: they are looked at every ${poll / 1000} s. Raise fs.inotify.max_user_watches or max_user_instances, or lower files.poll`,
        ),
    report: (name, event) => events.emit({ name, time: clock.now(), event }),
  })
}
