/** Google's own packages, which are loaded when they are needed: they are large, and most agents do without. */
import type * as PrivateCa from '@google-cloud/security-private-ca'
import type * as GoogleAuthLibrary from 'google-auth-library'

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
export async function named<T>(name: string, loading: Promise<T>): Promise<T> {
  try {
    return await loading
  } catch (error) {
    if (!isMissing(error, name)) throw error
    throw new Error(
      `Cannot load the google-ca plugin: the package ${name} is not installed. Install it beside Livery: npm install ${name}`,
      { cause: error },
    )
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(String(error.code)) && error.message.includes(`'${name}'`)
}
