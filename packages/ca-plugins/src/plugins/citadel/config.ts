/** Options of the `citadel` plugin, the checks that only it can make, and the resulting target. */
import { type AgentKey, type ConfigOf, OptionError, type PluginOptions } from '@livery/core/plugin'
import { formatHostPort, hostPortProblem, isLoopback, parseHostPort } from '../../transport/host-port.ts'

export const citadelOptions = {
  address: {
    type: 'string',
    required: true,
    problem: address => googleProblem(withoutScheme(address)) ?? hostPortProblem(withoutScheme(address)),
    description:
      '`host:port` of the CA; `https://` before it is accepted. Port 15010 means plain text, every other port TLS',
  },
  serverName: {
    type: 'string',
    problem: name =>
      /^[A-Za-z0-9._-]+$/.test(name) ? undefined : 'is not a DNS name. Write it without scheme and port',
    description: "the name that the CA's certificate must carry; default: the host of `address`",
  },
  clusterId: {
    type: 'string',
    problem: textProblem,
    description:
      "sent as `ClusterID`: which cluster's tokens these are. Default: none, and with `impersonate` the one that istiod has by default, `Kubernetes`",
  },
  certSigner: {
    type: 'string',
    problem: textProblem,
    description: 'the signer that the CA should use, sent as `CertSigner`',
  },
  headers: {
    type: 'map',
    secret: true,
    description:
      'names and values sent with each call besides; the values are never shown. Not those that the plugin sets, and none in `-bin`',
  },
  dnsNames: {
    type: 'boolean',
    description:
      'the CA gives the DNS names of the CSR, as `livery ca` does by its grants: then identities may have `dnsNames`. istiod and istio-csr give none',
  },
  impersonate: {
    type: 'boolean',
    default: false,
    description:
      "each request names its identity (`ImpersonatedIdentity`), as one node's agent for many workloads must",
  },
} as const satisfies PluginOptions

export type CitadelConfig = ConfigOf<typeof citadelOptions>

/** The address of the CA, and its name. */
export interface CitadelTarget {
  /** The CA's name in messages: `host:port`. */
  readonly address: string
  readonly host: string
  readonly port: number
  readonly plaintext: boolean
}

const PLAINTEXT_PORT = 15010
/** Headers that the plugin or gRPC itself sets. */
const RESERVED_HEADERS = new Set(['authorization', 'clusterid', 'content-type', 'te', 'host', 'user-agent'])

export function checkConfig(config: CitadelConfig, siblings: ReadonlySet<AgentKey>): void {
  if (siblings.has('dnsNames') && !config.dnsNames)
    throw new OptionError(
      'dnsNames',
      'Cannot use citadel as it is: an identity has dnsNames, and istiod and istio-csr give no DNS names. Remove dnsNames of the identity, or set dnsNames: true here for livery ca.',
    )
  for (const [name, value] of Object.entries(config.headers ?? {})) checkHeader(name, value)
  if (!targetOf(config).plaintext && !siblings.has('rootCert'))
    throw new OptionError(
      'rootCert',
      'Cannot use citadel without rootCert. Name the file with the root of the CA, or "system" for a CA with a public certificate.',
    )
}

export function targetOf(config: CitadelConfig): CitadelTarget {
  const at = parseHostPort('address', withoutScheme(config.address))
  const address = formatHostPort(at)
  return { ...at, address, plaintext: at.port === PLAINTEXT_PORT }
}

/** Warnings about a configuration that works. */
export function warningsOf({ address, host, plaintext }: CitadelTarget): readonly string[] {
  if (!plaintext || isLoopback(host)) return []
  return [
    `The connection to the CA at ${address} is not encrypted: tokens cross the network in the clear. Use port 15012 with rootCert unless the network itself is secure.`,
  ]
}

function withoutScheme(address: string): string {
  return address.replace(/^https:\/\//, '').replace(/\/$/, '')
}

/** Istio's agent took such an address for another CA, whatever its provider was. */
function googleProblem(address: string): string | undefined {
  if (!/(?:^|\.)googleapis\.com\.?(?::|$)/i.test(address)) return undefined
  const service = /^meshca\./i.test(address) ? ' with service: mesh-ca' : ''
  return `is a service of Google, and no CA of Istio's. Write plugin: google-ca${service}, with its own keys, and no address`
}

function textProblem(text: string): string | undefined {
  if (/^[\x21-\x7e]+$/.test(text)) return undefined
  return 'is empty or has other than printable ASCII characters without spaces. Correct it or leave it out'
}

function checkHeader(name: string, value: string): void {
  if (!/^[A-Za-z0-9_.-]+$/.test(name))
    throw headerProblem(name, 'its name is not a header name', 'Use letters, digits, "-"')
  if (RESERVED_HEADERS.has(name.toLowerCase()) || /^grpc-/i.test(name))
    throw headerProblem(name, 'this header is set by the plugin', 'Use tokenFile or clusterId, or leave it out')
  if (/-bin$/i.test(name)) throw headerProblem(name, 'names in -bin are for binary values', 'Use another name')
  if (!/^[\x20-\x7e]*$/.test(value)) throw headerProblem(name, 'its value is not printable ASCII', 'Remove the rest')
}

/** Leaves out the value, which may be a secret. */
function headerProblem(name: string, reason: string, remedy: string): OptionError {
  return new OptionError('headers', `Cannot use headers.${name} "…": ${reason}. ${remedy}.`)
}
