/** The environment variables that set keys: Istio's names, and our own. */
import { ConfigError } from '../schema/config-error.ts'
import type { Tree } from '../schema/config-tree.ts'
import type { Environment, Setting } from './environment.ts'
import { ISTIOD, istioKeys } from './istio-profile.ts'

interface Variable {
  /** The first that is set wins. */
  readonly names: readonly string[]
  readonly path: readonly string[]
  /** `undefined`: the variable sets nothing. */
  readonly convert?: (text: string) => Tree | undefined
}

const VARIABLES: readonly Variable[] = [
  { names: ['TRUST_DOMAIN'], path: ['trustDomain'] },
  { names: ['SECRET_TTL'], path: ['ttl'] },
  { names: ['SECRET_GRACE_PERIOD_RATIO'], path: ['rotation', 'ratio'], convert: remaining },
  { names: ['SECRET_GRACE_PERIOD_RATIO_JITTER'], path: ['rotation', 'jitter'], convert: number },
  { names: ['MINIMUM_DRAIN_DURATION'], path: ['drain'] },
  { names: ['CA_PROVIDER'], path: ['ca', 'plugin'], convert: provider },
  // Used by Istio's mesh where CA_ADDR is not set.
  { names: ['PROXY_CONFIG'], path: ['ca', 'address'], convert: discoveryAddress },
  { names: ['CA_ADDR', 'CA_ADDRESS'], path: ['ca', 'address'] },
  { names: ['PILOT_CERT_PROVIDER'], path: ['ca', 'rootCert'], convert: text => PROVIDER_ROOTS[text] },
  { names: ['CA_ROOT_CA'], path: ['ca', 'rootCert'], convert: text => (text === 'SYSTEM' ? 'system' : text) },
  { names: ['OUTPUT_CERTS'], path: ['output', 'directory'] },
  { names: ['ISTIOD_SAN', 'ALT_CA_HOSTNAME'], path: ['ca', 'serverName'] },
  { names: ['ISTIO_META_CLUSTER_ID', 'CLUSTER_ID'], path: ['ca', 'clusterId'] },
  { names: ['ISTIO_META_CERT_SIGNER'], path: ['ca', 'certSigner'] },
  { names: ['AUTH_TOKEN'], path: ['ca', 'tokenFile'] },
  { names: ['CRL_PATH'], path: ['trust', 'crl'] },
  { names: ['LOG'], path: ['log', 'level'] },
  { names: ['NODE_NAME'], path: ['kubernetes', 'nodeName'] },
  {
    names: ['PROV_CERT'],
    path: ['ca', 'clientCertificate', 'certFile'],
    convert: directory => `${directory}/cert-chain.pem`,
  },
  { names: ['PROV_CERT'], path: ['ca', 'clientCertificate', 'keyFile'], convert: directory => `${directory}/key.pem` },
]

/** Istio's name of a provider whose certificates GKE mounts as files. */
const GKE_PROVIDER = 'GkeWorkloadCertificate'

/** The roots of istiod's certificate, keyed by the signer that Istio's variable names. */
const PROVIDER_ROOTS: Readonly<Record<string, string>> = {
  kubernetes: '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
  custom: './etc/certs/root-cert.pem',
}

const HEADER_PREFIX = 'CA_HEADER_'

/** The keys that `environment` sets. An empty variable counts as unset, as it does for Istio. */
export function environmentSettings(environment: Environment): Setting[] {
  const settings: Setting[] = []
  for (const { names, path, convert } of VARIABLES) {
    const variable = names.find(name => environment[name])
    const text = variable === undefined ? undefined : environment[variable]
    if (variable === undefined || text === undefined) continue
    refuseLiteralToken(variable, text)
    const value = convert ? convert(text) : text
    // The text of PROXY_CONFIG is a whole document.
    if (value !== undefined) settings.push({ path, value, variable, text: variable === 'PROXY_CONFIG' ? '…' : text })
  }
  const keyType = keyTypeSetting(environment)
  if (keyType) settings.push(keyType)
  for (const variable of Object.keys(environment).sort()) {
    const text = environment[variable]
    if (!variable.startsWith(HEADER_PREFIX) || !text) continue
    settings.push({ path: ['ca', 'headers', variable.slice(HEADER_PREFIX.length)], value: text, variable, text: '…' })
  }
  return settings
}

/**
 * The configuration of Istio's injected sidecar: one identity, from istiod, on Istio's socket. `undefined` unless both
 * `SERVICE_ACCOUNT` and `POD_NAMESPACE` are set.
 */
export function sidecarSettings(environment: Environment, workingDirectory: string): Setting[] | undefined {
  const { SERVICE_ACCOUNT: account, POD_NAMESPACE: namespace } = environment
  if (!account || !namespace) return undefined
  const mounted = mountedSettings(environment)
  const keys = [...istioKeys(environment, workingDirectory), ...(mounted.length > 0 ? [] : ISTIOD)]
  return [...keys.map(([path, value]) => ({ path, value, variable: 'SERVICE_ACCOUNT', text: account })), ...mounted]
}

/** A sidecar with mounted certificates asks no CA. */
function mountedSettings({ FILE_MOUNTED_CERTS: isMounted, CA_PROVIDER: provider }: Environment): Setting[] {
  const isGke = provider === GKE_PROVIDER
  if (isMounted !== 'true' && !isGke) return []
  const by = isGke ? { variable: 'CA_PROVIDER', text: provider } : { variable: 'FILE_MOUNTED_CERTS', text: 'true' }
  return [
    { path: ['ca', 'plugin'], value: 'file-mount', ...by },
    { path: ['ca', 'layout'], value: isGke ? 'gke' : 'istio', ...by },
  ]
}

/** The address of istiod in Istio's ProxyConfig, as YAML or JSON. */
function discoveryAddress(config: string): string | undefined {
  return /["']?\bdiscoveryAddress["']?\s*:\s*["']?([^\s"',}]+)/.exec(config)?.[1]
}

/** Istio counts the remaining part of a lifetime, `rotation.ratio` the elapsed part. */
function remaining(text: string): Tree {
  const ratio = number(text)
  return typeof ratio === 'number' ? Number((1 - ratio).toPrecision(12)) : ratio
}

/** Text that is not a number stays text, for the schema to refuse. */
function number(text: string): Tree {
  return /^\d*\.?\d+$/.test(text) ? Number(text) : text
}

function provider(text: string): Tree {
  if (text === GKE_PROVIDER) return 'file-mount'
  return text === 'Citadel' ? 'citadel' : text
}

function keyTypeSetting(environment: Environment): Setting | undefined {
  const { WORKLOAD_RSA_KEY_SIZE: size, ECC_SIGNATURE_ALGORITHM: algorithm, ECC_CURVE: curve } = environment
  const path = ['keyType']
  if (algorithm && algorithm !== 'ECDSA')
    return { path, value: algorithm, variable: 'ECC_SIGNATURE_ALGORITHM', text: algorithm }
  if (algorithm || (curve && !size)) {
    const variable = curve ? 'ECC_CURVE' : 'ECC_SIGNATURE_ALGORITHM'
    return { path, value: `ecdsa-${(curve || 'P256').toLowerCase()}`, variable, text: curve || 'ECDSA' }
  }
  return size ? { path, value: `rsa-${size}`, variable: 'WORKLOAD_RSA_KEY_SIZE', text: size } : undefined
}

/** ztunnel takes a literal token here; a token must not reach an error message or a dump. */
function refuseLiteralToken(variable: string, text: string): void {
  if (variable !== 'AUTH_TOKEN' || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) return
  const origin = { kind: 'environment', variable, text: '…' } as const
  const remedy = 'Write the token to a file and name the file here'
  throw new ConfigError([{ origin, path: 'ca.tokenFile', reason: 'holds a token itself', remedy }])
}
