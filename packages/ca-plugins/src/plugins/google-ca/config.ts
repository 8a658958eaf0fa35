/** Options of the `google-ca` plugin, the checks that only it can make, and the resulting target. */
import { type AgentKey, type ConfigOf, OptionError, type PluginOptions } from '@livery/core/plugin'
import { formatHostPort, isLoopback, parseHostPort } from '../../transport/host-port.ts'

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
    description: 'the ID of the CA of the pool that issues; default: the pool chooses',
    problem: value =>
      /^[\w-]{1,63}$/.test(value) ? undefined : 'is not an ID. Write the last part of certificateAuthorities/…',
  },
  subjectMode: {
    type: 'string',
    choices: ['reflected-spiffe', 'csr'],
    default: 'reflected-spiffe',
    description: "the source of the identity: the caller's credentials, or the CSR",
  },
  endpoint: {
    type: 'string',
    description:
      '`host:port` of another server, such as a private endpoint; without it `privateca.googleapis.com:443`, or `meshca.googleapis.com:443`. `http://` before it is for a stand-in on loopback',
    problem: value => (/^\S+:\d{1,5}$/.test(value) ? undefined : 'is not an address. Write host:port'),
  },
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

/** The address of a Google service, or of a stand-in. */
export interface GoogleEndpoint {
  readonly host: string
  readonly port: number
  /** The endpoint's name in messages: `host:port`. */
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
  const { credentialsFile, subjectMode } = config
  if (siblings.has('dnsNames') && subjectMode !== 'csr')
    throw new OptionError(
      'subjectMode',
      `Cannot use subjectMode "${subjectMode}": an identity has dnsNames, and the certificate would carry the caller's identity alone. Remove dnsNames, or write subjectMode: csr with service "cas".`,
    )
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

const PLAINTEXT = 'http://'

function checkEndpoint({ service, endpoint = DEFAULT_ENDPOINTS[service] }: GoogleCaConfig): GoogleEndpoint {
  const plaintext = endpoint.startsWith(PLAINTEXT)
  const at = parseHostPort('endpoint', plaintext ? endpoint.slice(PLAINTEXT.length) : endpoint)
  if (at.port === 0)
    throw new OptionError(
      'endpoint',
      `Cannot use endpoint "${endpoint}": port 0 cannot be called. Name the port of the service.`,
    )
  const address = formatHostPort(at)
  if (plaintext && !isLoopback(at.host))
    throw new OptionError(
      'endpoint',
      `Cannot use endpoint "${endpoint}": tokens would cross the network in the clear. Leave ${PLAINTEXT} out, or name a stand-in on 127.0.0.1.`,
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
