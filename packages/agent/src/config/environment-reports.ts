/** Variables of Istio's agent and of ztunnel that have no effect here: each with its replacement. */
import type { Environment } from './environment.ts'

interface WithoutEffect {
  /** Values that ask for the agent's own behaviour. */
  readonly harmless: readonly string[]
  readonly remedy: string
}

const WITHOUT_EFFECT: Readonly<Record<string, WithoutEffect>> = {
  CREDENTIAL_FETCHER_TYPE: {
    harmless: ['JWT'],
    remedy: 'Name a source of tokens under ca.credentials, such as { plugin: gce-metadata }',
  },
  CREDENTIAL_IDENTITY_PROVIDER: {
    harmless: ['GoogleComputeEngine'],
    remedy: 'Name a source of tokens under ca.credentials',
  },
  FAKE_CA: { harmless: ['false'], remedy: 'Write ca: { plugin: embedded }, which signs in this process' },
  FILE_MOUNTED_CERTS: { harmless: ['false'], remedy: 'Write ca: { plugin: file-mount }' },
  JWT_POLICY: {
    harmless: ['third-party-jwt', 'first-party-jwt'],
    remedy: 'Name the token under ca.tokenFile, or certificates under ca.clientCertificate',
  },
  PILOT_CERT_PROVIDER: {
    harmless: ['istiod', 'kubernetes', 'custom'],
    remedy: "Name the roots of the CA's own certificate under ca.rootCert",
  },
  WORKLOAD_IDENTITY_SOCKET_FILE: {
    harmless: ['socket'],
    remedy:
      'It names the socket of another SDS server: point Envoy to that, or name the path of a socket of this agent',
  },
}

/** This agent serves SDS only, and proxies no xDS. The values of these variables can be credentials. */
const XDS_PREFIX = 'XDS_'

/** One line per variable. `isSidecar`: there is no file, and the environment is the configuration. */
export function environmentWarnings(
  environment: Environment,
  { isSidecar, profile }: { readonly isSidecar: boolean; readonly profile: 'istio' | undefined },
): string[] {
  const set = Object.entries(WITHOUT_EFFECT).filter(([variable, { harmless }]) => {
    const value = environment[variable]
    if (!value || harmless.includes(value)) return false
    // This variable decides in a sidecar where the certificates come from.
    if (variable === 'FILE_MOUNTED_CERTS') return !isSidecar
    return variable !== 'WORKLOAD_IDENTITY_SOCKET_FILE' || !(isSidecar || profile === 'istio')
  })
  const xds = Object.keys(environment).filter(variable => variable.startsWith(XDS_PREFIX) && environment[variable])
  return [
    ...set.map(([variable, { remedy }]) => `${variable}=${environment[variable]} has no effect here. ${remedy}.`),
    ...xds.sort().map(variable => `${variable} has no effect here: this agent serves SDS, and no other xDS.`),
  ]
}
