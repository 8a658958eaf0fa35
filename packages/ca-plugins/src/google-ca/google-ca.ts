/** The `google-ca` plugin: Google's Certificate Authority Service, and the Mesh CA that came before it. */
import { type CACapabilities, type CAClient, type CAContext, defineCAPlugin } from '@livery/core'
import { CasClient } from './cas-client.ts'
import { type Authentication, LibraryAuthentication, sourceAuthentication } from './google-authentication.ts'
import { type CasTarget, checkConfig, type GoogleCaConfig, googleCaOptions } from './google-ca-config.ts'
import { type GooglePackages, installedPackages } from './google-packages.ts'
import { MeshCaClient } from './mesh-ca-client.ts'

const KEY_TYPES = ['rsa-2048', 'rsa-3072', 'rsa-4096', 'ecdsa-p256', 'ecdsa-p384'] as const

/** What Certificate Authority Service can do: those of the plugin. */
export const casCapabilities: CACapabilities = { roots: 'poll', ttl: 'honoured', san: 'caller', keyTypes: KEY_TYPES }
/** What Mesh CA can do. */
export const meshCaCapabilities: CACapabilities = { ...casCapabilities, roots: 'none' }

export const googleCa = defineCAPlugin({
  apiVersion: 1,
  name: 'google-ca',
  capabilities: casCapabilities,
  options: googleCaOptions,
  needs: ['tls', 'credentials'],
  create: (context, config) => createGoogleCa(context, config),
})

/**
 * Opens no connection yet. Throws a `TypeError` for values that do not go together, and an `Error` with the command that
 * installs it for a package that is missing.
 */
export async function createGoogleCa(
  context: CAContext,
  config: GoogleCaConfig,
  packages: GooglePackages = installedPackages,
): Promise<CAClient> {
  const target = checkConfig(config)
  const { tls, credentials } = context
  if (target.service === 'cas') {
    const authentication = await casAuthentication(context, config, target, packages)
    return new CasClient({ target, tls, authentication, privateCa: await packages.privateCa() })
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
  packages: GooglePackages,
): Promise<Authentication> {
  const source = credentials && sourceAuthentication(credentials)
  const isConfigured = source && credentials.isConfigured?.({}) !== false
  if (isConfigured && credentialsFile !== undefined)
    throw new TypeError(
      `Cannot use credentialsFile "${credentialsFile}": credentials are configured as well. Leave one of them out.`,
    )
  if (isConfigured) return source
  return new LibraryAuthentication({
    auth: await packages.auth(),
    ...(credentialsFile !== undefined && { credentialsFile }),
    projectId: pool.split('/')[1] ?? '',
    url: `https://${endpoint.host}/`,
  })
}
