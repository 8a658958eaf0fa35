/** The module `files`: secrets that callers name by their files, and certificates in well-known folders. */
import { type CAClient, FILE_DEFAULTS, FileSecrets } from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import type { Basis } from '../life/module.ts'
import { allowedFolders } from './allowed-folders.ts'
import { withWellKnownFiles } from './well-known-files.ts'

export const files = {
  name: 'files',
  async open(made: Basis & { readonly ca: CAClient }) {
    const ca = await withWellKnownFiles(made)
    const files = made.life.parts.use(openFileSecrets(made))
    made.reloads.subscribe(config => files.useFolders(allowedFolders(config)))
    return { ca, files }
  },
}

function openFileSecrets({ config, clock, vault, scopes, events }: Basis): FileSecrets {
  const { expired } = config.files
  return new FileSecrets({
    clock,
    vault,
    ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
    folders: allowedFolders(config),
    expired,
    onWatchError: err =>
      scopes
        .of('files')
        .warn(
          { err },
          `cannot watch the files that are named: they are looked at every ${FILE_DEFAULTS.pollMs / 1000} s. Raise fs.inotify.max_user_watches or max_user_instances`,
        ),
    report: (name, event) => events.emit({ name, time: clock.now(), event }),
  })
}
