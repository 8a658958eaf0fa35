/** The `google-ca` plugin: its capabilities, its options, and the checks that only it can make. */
import {
  type AgentKey,
  type CACapabilities,
  type CAClient,
  type CAContext,
  type ConfigOf,
  defineCAPlugin,
  OptionError,
  type PluginOptions,
} from '@livery/core'
import { formatHostPort, isLoopback, parseHostPort } from '../../transport/host-port.ts'
import { CasClient } from './cas-client.ts'
import { type Authentication, LibraryAuthentication, sourceAuthentication } from './google-authentication.ts'
import { type GoogleAuthPackage, loadAuthLibrary } from './google-packages.ts'
import { MeshCaClient } from './mesh-ca-client.ts'

export const googleCaOptions = {
  service: {
    type: 'string',
    choices: ['cas', 'mesh-ca'],
    default: 'cas',
    description: 'Certificate Authority Service (`cas`), or the retired Mesh CA (`mesh-ca`)',
  },
  pool: {
    type: 'string',
    description: 'the CA pool, required with `cas`: `projects/…/locations/…/caPools/…`',
    problem: value => resourceProblem(value, /^projects\/[^/\s]+\/locations\/[^/\s]+\/caPools\/[\w-]+$/, 'caPools'),
  },
  certificateTemplate: {
    type: 'string',
    description:
      'the template that certificates are made by, in the location of the pool: `projects/…/locations/…/certificateTemplates/…`',
    problem: value =>
      resourceProblem(
        value,
        /^projects\/[^/\s]+\/locations\/[^/\s]+\/certificateTemplates\/[\w-]+$/,
        'certificateTemplates',
      ),
  },
  issuingCa: {
    type: 'string',
    description: 'the ID of the one CA of the pool that issues; without it, the pool chooses',
    problem: value =>
      /^[\w-]{1,63}$/.test(value) ? undefined : 'is not an ID. Write the last part of certificateAuthorities/…',
  },
  subjectMode: {
    type: 'string',
    choices: ['reflected-spiffe', 'csr'],
    default: 'reflected-spiffe',
    description: "where the identity comes from: the caller's credentials, or the CSR",
  },
  endpoint: {
    type: 'string',
    description:
      '`host:port` of another server, such as a private endpoint; without it `privateca.googleapis.com:443`, or `meshca.googleapis.com:443`',
    problem: value => (/^\S+:\d{1,5}$/.test(value) ? undefined : 'is not an address. Write host:port'),
  },
  plaintext: { type: 'boolean', default: false, description: 'without TLS: for a stand-in on loopback only' },
  credentialsFile: {
    type: 'path',
    description:
      "a workload identity federation file with a `file`, `url` or `certificate` source, or the key of a service account; read again when it changes. Without it, what Google's library finds",
  },
  clusterUrl: {
    type: 'string',
    description:
      'with `mesh-ca`: the GKE cluster, whose location is sent along: `https://container.googleapis.com/v1/projects/…/locations/…/clusters/…`',
    problem: value =>
      locationOf(value) === undefined ? 'is not a GKE cluster. Write …/projects/…/locations/…/clusters/…' : undefined,
  },
} as const satisfies PluginOptions

export type GoogleCaConfig = ConfigOf<typeof googleCaOptions>

/** The capabilities of Certificate Authority Service: those of the plugin. */
export const casCapabilities: CACapabilities = {
  roots: 'poll',
  ttl: 'honoured',
  san: 'caller',
  keyTypes: ['rsa-2048', 'rsa-3072', 'rsa-4096', 'ecdsa-p256', 'ecdsa-p384'],
}
/** The capabilities of Mesh CA. */
export const meshCaCapabilities: CACapabilities = { ...casCapabilities, roots: 'none' }

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

/** A server of Google's, or a stand-in. */
export interface GoogleEndpoint {
  readonly host: string
  readonly port: number
  /** For messages: `host:port`. */
  readonly address: string
  readonly plaintext: boolean
}

export interface CasTarget {
  readonly service: 'cas'
  readonly endpoint: GoogleEndpoint
  readonly pool: string
  readonly certificateTemplate?: string
  readonly issuingCa?: string
  readonly subjectMode: 'reflected-spiffe' | 'csr'
}

export interface MeshCaTarget {
  readonly service: 'mesh-ca'
  readonly endpoint: GoogleEndpoint
  /** Zone or region of the cluster. */
  readonly location?: string
}

const CAS_ONLY = ['pool', 'certificateTemplate', 'issuingCa', 'credentialsFile'] as const
const DEFAULT_ENDPOINTS = { cas: 'privateca.googleapis.com:443', 'mesh-ca': 'meshca.googleapis.com:443' } as const

export function checkConfig(config: GoogleCaConfig, siblings: ReadonlySet<AgentKey>): void {
  targetOf(config)
  const { credentialsFile } = config
  if (credentialsFile !== undefined && (siblings.has('tokenFile') || siblings.has('credentials')))
    throw new OptionError(
      'credentialsFile',
      `Cannot use credentialsFile "${credentialsFile}": credentials are configured as well. Leave one of them out.`,
    )
}

/** Throws an `OptionError` for values that do not go together. */
export function targetOf(config: GoogleCaConfig): CasTarget | MeshCaTarget {
  const endpoint = checkEndpoint(config)
  return config.service === 'cas' ? casTarget(config, endpoint) : meshCaTarget(config, endpoint)
}

function casTarget({ clusterUrl, ...config }: GoogleCaConfig, endpoint: GoogleEndpoint): CasTarget {
  if (config.pool === undefined)
    throw new OptionError(
      'pool',
      'Cannot use service "cas": pool is missing. Set pool to projects/…/locations/…/caPools/….',
    )
  if (clusterUrl !== undefined) throw misplaced('clusterUrl', clusterUrl, 'cas')
  const { pool, certificateTemplate, issuingCa, subjectMode } = config
  const [location, other] = [pool, certificateTemplate].map(name => name?.split('/')[3])
  if (other !== undefined && other !== location)
    throw new OptionError(
      'certificateTemplate',
      `Cannot use certificateTemplate ${JSON.stringify(certificateTemplate)}: it is in ${other}, and the pool in ${location}. Name a template in the location of the pool.`,
    )
  return {
    service: 'cas',
    endpoint,
    pool,
    subjectMode,
    ...(certificateTemplate !== undefined && { certificateTemplate }),
    ...(issuingCa !== undefined && { issuingCa }),
  }
}

function meshCaTarget(config: GoogleCaConfig, endpoint: GoogleEndpoint): MeshCaTarget {
  for (const field of CAS_ONLY) {
    const value = config[field]
    if (value !== undefined) throw misplaced(field, value, 'mesh-ca')
  }
  if (config.subjectMode !== 'reflected-spiffe') throw misplaced('subjectMode', config.subjectMode, 'mesh-ca')
  const location = config.clusterUrl === undefined ? undefined : locationOf(config.clusterUrl)
  return { service: 'mesh-ca', endpoint, ...(location !== undefined && { location }) }
}

function checkEndpoint({ service, endpoint, plaintext }: GoogleCaConfig): GoogleEndpoint {
  const at = parseHostPort('endpoint', endpoint ?? DEFAULT_ENDPOINTS[service])
  if (at.port === 0)
    throw new OptionError(
      'endpoint',
      `Cannot use endpoint "${endpoint}": port 0 cannot be called. Name the port of the service.`,
    )
  const address = formatHostPort(at)
  if (plaintext && !isLoopback(at.host))
    throw new OptionError(
      'plaintext',
      `Cannot use plaintext with ${address}: tokens would cross the network in the clear. Leave plaintext out, or set endpoint to a stand-in on 127.0.0.1.`,
    )
  return { ...at, address, plaintext }
}

function locationOf(clusterUrl: string): string | undefined {
  return /\/projects\/[^/\s]+\/locations\/([\w-]+)\/clusters\/[^/\s]+$/.exec(clusterUrl)?.[1]
}

function resourceProblem(value: string, form: RegExp, collection: string): string | undefined {
  return form.test(value) ? undefined : `is not a resource name. Write projects/…/locations/…/${collection}/…`
}

function misplaced(field: string, value: string, service: string): OptionError {
  return new OptionError(
    field,
    `Cannot use ${field} ${JSON.stringify(value)}: service "${service}" has no such setting. Leave it out, or choose the other service.`,
  )
}
