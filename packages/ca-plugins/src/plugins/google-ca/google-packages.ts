/** Google's own packages, which are loaded when they are needed. */
import type * as PrivateCa from '@google-cloud/security-private-ca'
import type * as GoogleAuthLibrary from 'google-auth-library'
import { optionalPackage } from '../optional-package.ts'

/** How the packages are loaded; a test hands in others. */
export interface GooglePackages {
  privateCa(): Promise<typeof PrivateCa>
  auth(): Promise<typeof GoogleAuthLibrary>
}

export const installedPackages: GooglePackages = {
  privateCa: () => named('@google-cloud/security-private-ca', import('@google-cloud/security-private-ca')),
  auth: () => named('google-auth-library', import('google-auth-library')),
}

/** Rejects with an `Error` that names the package and the command that installs it. */
export function named<T>(name: string, loading: Promise<T>): Promise<T> {
  return optionalPackage('google-ca', name, loading)
}
