/** The public names of `@livery/core/plugin`: what the author of a plugin needs, and nothing of the manager. */

export type {
  CAChange,
  CAClient,
  CAErrorCode,
  CertificateRequest,
  CertificateSigningRequest,
  IssuedCertificate,
  RequestTicket,
} from './contract/ca-client.ts'
export { CA_ERROR_CODES, CAError } from './contract/ca-client.ts'
export type {
  AgentKey,
  CACapabilities,
  CAContext,
  CAPlugin,
  ClientCertificate,
  PluginLog,
  PluginMetrics,
  PluginNeed,
  TlsMaterial,
} from './contract/ca-plugin.ts'
export { CA_PLUGIN_API_VERSION, defineCAPlugin } from './contract/ca-plugin.ts'
export type {
  CredentialContext,
  CredentialPlugin,
  WorkloadTokenRequest,
  WorkloadTokens,
} from './contract/credential-plugin.ts'
export { CREDENTIAL_PLUGIN_API_VERSION, defineCredentialPlugin } from './contract/credential-plugin.ts'
export type { Credential, CredentialRequest, CredentialSource } from './contract/credentials.ts'
export type { KeyType } from './contract/key-generator.ts'
export { KEY_TYPES } from './contract/key-generator.ts'
export type { ConfigOf, PluginOption, PluginOptions } from './contract/plugin-options.ts'
export { OptionError } from './contract/plugin-options.ts'
export type { PluginKind } from './contract/plugin-shape.ts'
export { AGENT_OPTION_NAMES, pluginFaults } from './contract/plugin-shape.ts'
export { MAX_ROOT_LENGTH, MAX_ROOTS, MAX_ROOTS_LENGTH } from './contract/trust-anchor.ts'
export type { SpiffeId } from './spiffe/spiffe-id.ts'
export { isSpiffeId, parseSpiffeId, spiffeIdProblem, trustDomainOf, trustDomainProblem } from './spiffe/spiffe-id.ts'
export { scrub } from './text/scrub.ts'
export type { Clock } from './time/clock.ts'
export { SystemClock } from './time/clock.ts'
export { after, type Deadline, sleep, withDeadline } from './time/deadline.ts'
export { untilAborted } from './time/until-aborted.ts'
export { derToPem, pemToDer, splitCertificates } from './x509/pem.ts'
export { privateKeyToPem } from './x509/private-key-pem.ts'
