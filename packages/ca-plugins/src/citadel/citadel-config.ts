/** The configuration of the `citadel` plugin, and what only the plugin can check of it. */
import { formatHostPort, isLoopback, parseHostPort } from '../host-port.ts'

export interface CitadelConfig {
  /** `host:port` of the CA; `https://` before it is accepted. Port 15010 means no TLS, as everywhere in Istio. */
  readonly address: string
  /** What the CA's certificate is verified with: a file, `system`, or PEM itself. Needed unless the port is 15010. */
  readonly rootCert?: string
  /** The name that the CA's certificate must carry, where it is not the host of `address`. */
  readonly serverName?: string
  /** Read at each call; a request's own comes before it. */
  readonly tokenFile?: string
  /** For mutual TLS: used as soon as the files are there, and again when they change. */
  readonly clientCertificate?: { readonly certFile: string; readonly keyFile: string }
  /** Sent as `ClusterID`: which cluster's tokens these are. */
  readonly clusterId?: string
  /** Sent with each call besides, by name. */
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as `CertSigner`: which signer the CA should use. */
  readonly certSigner?: string
  /** One node's agent asks for many workloads: each request names its identity. Default `false`. */
  readonly impersonate?: boolean
  /** How long one call may take, in milliseconds; default 10,000. */
  readonly timeoutMs?: number
}

/** Where the CA is, as gRPC needs it. */
export interface CitadelTarget {
  /** For messages: `host:port`. */
  readonly address: string
  readonly host: string
  readonly uri: string
  readonly plaintext: boolean
}

const PLAINTEXT_PORT = 15010
/** Set by the plugin or by gRPC itself. */
const RESERVED_HEADERS = new Set(['authorization', 'clusterid', 'content-type', 'te', 'host', 'user-agent'])

/** Throws a `TypeError` that names the field, its value, the reason and the remedy. */
export function checkConfig(config: CitadelConfig): CitadelTarget {
  const at = parseHostPort('address', config.address.replace(/^https:\/\//, '').replace(/\/$/, ''))
  if (at.port === 0) throw problem('address', config.address, 'port 0 is no port to call', 'Name the port of the CA')
  const plaintext = at.port === PLAINTEXT_PORT
  if (config.rootCert === undefined && !plaintext)
    throw new TypeError(
      'Cannot use rootCert: it is missing. Name the file with the root of the CA, or "system" for a CA with a public certificate.',
    )
  if (config.rootCert === '') throw problem('rootCert', '', 'it is empty', 'Name a file, or "system"')
  if (config.serverName !== undefined && !/^[A-Za-z0-9._-]+$/.test(config.serverName))
    throw problem('serverName', config.serverName, 'it is no DNS name', 'Write it without scheme and port')
  if (config.timeoutMs !== undefined && !(config.timeoutMs > 0))
    throw problem('timeoutMs', config.timeoutMs, 'it is not greater than 0', 'Leave it out for 10000')
  for (const field of ['clusterId', 'certSigner'] as const) checkText(field, config[field])
  for (const [name, value] of Object.entries(config.headers ?? {})) checkHeader(name, value)
  const address = formatHostPort(at)
  return { address, host: at.host, uri: `dns:///${address}`, plaintext }
}

/** What an operator should know of a configuration that works. */
export function warningsOf({ address, host, plaintext }: CitadelTarget): readonly string[] {
  if (!plaintext || isLoopback(host)) return []
  return [
    `The connection to the CA at ${address} is not encrypted: tokens cross the network in the clear. Use port 15012 with rootCert unless the network itself is secure.`,
  ]
}

function checkHeader(name: string, value: string): void {
  const field = `headers.${name}`
  if (!/^[A-Za-z0-9_.-]+$/.test(name))
    throw problem(field, '…', 'its name is no header name', 'Use letters, digits, "-"')
  if (RESERVED_HEADERS.has(name.toLowerCase()) || /^grpc-/i.test(name))
    throw problem(field, '…', 'this header is set by the plugin', 'Use tokenFile or clusterId, or leave it out')
  if (/-bin$/i.test(name)) throw problem(field, '…', 'names in -bin are for binary values', 'Use another name')
  // The value may be a secret.
  if (!/^[\x20-\x7e]*$/.test(value)) throw problem(field, '…', 'its value is not printable ASCII', 'Remove the rest')
}

function checkText(field: string, value: string | undefined): void {
  if (value !== undefined && !/^[\x21-\x7e]+$/.test(value))
    throw problem(
      field,
      value,
      'it is empty or has other than printable ASCII characters',
      'Correct it or leave it out',
    )
}

function problem(field: string, value: unknown, reason: string, remedy: string): TypeError {
  return new TypeError(`Cannot use ${field} ${JSON.stringify(value)}: ${reason}. ${remedy}.`)
}
