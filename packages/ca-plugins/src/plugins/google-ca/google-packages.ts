/** Google's authentication library, which is loaded when it is needed. */
import type * as GoogleAuthLibrary from 'google-auth-library'
import { optionalPackage } from '../optional-package.ts'

export type GoogleAuthPackage = typeof GoogleAuthLibrary

/** Rejects with an `Error` that names the package and the command that installs it. A test hands in another `load`. */
export function loadAuthLibrary(
  load: () => Promise<GoogleAuthPackage> = () => import('google-auth-library'),
): Promise<GoogleAuthPackage> {
  return optionalPackage('google-ca', 'google-auth-library', load())
}
