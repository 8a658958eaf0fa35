/** The `google-ca` plugin: its capabilities, and how a configuration becomes the client of either CA. */
import { type CACapabilities, type CAClient, type CAContext, defineCAPlugin } from '@livery/core/plugin'
import { CasClient } from './cas-client.ts'
import { type CasTarget, checkConfig, type GoogleCaConfig, googleCaOptions, targetOf } from './config.ts'
import { type Authentication, LibraryAuthentication, sourceAuthentication } from './google-authentication.ts'
import { type GoogleAuthPackage, loadAuthLibrary } from './google-packages.ts'
import { MeshCaClient } from './mesh-ca-client.ts'

/** The capabilities of Certificate Authority Service. DNS names are for `subjectMode: csr` (see `checkConfig`). */
export const casCapabilities: CACapabilities = {
  roots: 'poll',
  ttl: 'honoured',
  san: 'caller',
  dnsNames: true,
  keyTypes: ['rsa-2048', 'rsa-3072', 'rsa-4096', 'ecdsa-p256', 'ecdsa-p384'],
}
/** The capabilities of Mesh CA. */
export const meshCaCapabilities: CACapabilities = { ...casCapabilities, roots: 'none', dnsNames: false }

export const googleCa = defineCAPlugin({
  apiVersion: 1,
  name: 'google-ca',
  capabilities: casCapabilities,
  options: googleCaOptions,
  needs: ['tls', 'credentials'],
  check: checkConfig,
  create: (context, config) => createGoogleCa(context, config),
})

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
  const { clock, tls, credentials } = context
  if (target.service === 'cas') {
    const authentication = await casAuthentication(context, config, target, loadLibrary)
    return new CasClient({ target, clock, tls, authentication })
  }
  if (!credentials)
    throw new TypeError('Cannot use service "mesh-ca": credentials is missing. Set credentials to an STS exchange.')
  const authentication = sourceAuthentication(credentials)
  return new MeshCaClient({ target, clock, tls, authentication })
}

/** The configured credentials, or Google's library without them. */
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
