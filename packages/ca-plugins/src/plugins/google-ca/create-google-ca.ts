/** Makes the client that a configuration of the `google-ca` plugin asks for. */
import type { CAClient, CAContext } from '@livery/core'
import { CasClient } from './cas-client.ts'
import { type Authentication, LibraryAuthentication, sourceAuthentication } from './google-authentication.ts'
import { type GoogleAuthPackage, loadAuthLibrary } from './google-packages.ts'
import { MeshCaClient } from './mesh-ca-client.ts'
import { type CasTarget, type GoogleCaConfig, targetOf } from './plugin.ts'

/**
 * Opens no connection yet. Throws a `TypeError` for Mesh CA without credentials, and an `Error` with the command that
 * installs it if Google's authentication library is needed and missing; a test hands in another `loadLibrary`.
 */
export async function createGoogleCa(
  context: CAContext,
  config: GoogleCaConfig,
  loadLibrary?: () => Promise<GoogleAuthPackage>,
): Promise<CAClient> {
  const target = targetOf(config)
  const { tls, credentials } = context
  if (target.service === 'cas') {
    const authentication = await casAuthentication(context, config, target, loadLibrary)
    return new CasClient({ target, tls, authentication })
  }
  if (!credentials)
    throw new TypeError('Cannot use service "mesh-ca": credentials is missing. Set credentials to an STS exchange.')
  const authentication = sourceAuthentication(credentials)
  return new MeshCaClient({ target, tls, authentication })
}

/** The configured credentials; where there are none, those of Google's library. */
async function casAuthentication(
  { credentials }: CAContext,
  { credentialsFile }: GoogleCaConfig,
  { pool, endpoint }: CasTarget,
  loadLibrary: (() => Promise<GoogleAuthPackage>) | undefined,
): Promise<Authentication> {
  const source = credentials && sourceAuthentication(credentials)
  const isConfigured = source && credentials.isConfigured?.({}) !== false
  if (isConfigured) return source
  return new LibraryAuthentication({
    auth: await loadAuthLibrary(loadLibrary),
    ...(credentialsFile !== undefined && { credentialsFile }),
    projectId: pool.split('/')[1] ?? '',
    url: `https://${endpoint.host}/`,
  })
}
