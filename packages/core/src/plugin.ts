/** The public names of `@livery/core/plugin`, for authors of plugins and of other parts beside the manager. */

export {
  CA_ERROR_CODES,
  type CAChange,
  type CAClient,
  CAError,
  type CAErrorCode,
  type CertificateRequest,
  type CertificateSigningRequest,
  type IssuedCertificate,
  type RequestTicket,
} from './contract/ca-client.ts'
export {
  type AgentKey,
  CA_PLUGIN_API_VERSION,
  type CACapabilities,
  type CAContext,
  type CAMember,
  type CAPlugin,
  type ClientCertificate,
  defineCAPlugin,
  type PluginLog,
  type PluginMetrics,
  type PluginNeed,
  type TlsMaterial,
} from './contract/ca-plugin.ts'
export { type ChainPath, MAX_CLOCK_SKEW_MS } from './contract/certificate-verifier.ts'
export {
  CREDENTIAL_PLUGIN_API_VERSION,
  type CredentialContext,
  type CredentialPlugin,
  defineCredentialPlugin,
  type WorkloadTokenRequest,
  type WorkloadTokens,
} from './contract/credential-plugin.ts'
export type { Credential, CredentialRequest, CredentialSource } from './contract/credentials.ts'
export {
  type GeneratedKey,
  KEY_TYPES,
  type KeyGenerator,
  type KeyRequest,
  type KeyType,
  type PrivateKeyFormat,
} from './contract/key-generator.ts'
export { type ConfigOf, OptionError, type PluginOption, type PluginOptions } from './contract/plugin-options.ts'
export { AGENT_OPTION_NAMES, type PluginKind, pluginFaults } from './contract/plugin-shape.ts'
export { MAX_ROOT_LENGTH, MAX_ROOTS, MAX_ROOTS_LENGTH } from './contract/trust-anchor.ts'
export { FileFault, readFault } from './file-secrets/file-fault.ts'
export { isSelfSigned, type KeyPair, type KeyPairFiles, MAX_FILE_BYTES, readKeyPair } from './file-secrets/key-pair.ts'
export { ChangingFile, readSmallFile } from './files/changing-file.ts'
export { stampOf, stampsOf } from './files/file-stamp.ts'
export { MAX_SOCKET_PATH_BYTES } from './files/socket-path-limit.ts'
export { checkFile, checkFolder, makeFolder, shareFolders, UntrustedPathError } from './files/trusted-path.ts'
export {
  isSpiffeId,
  parseSpiffeId,
  type SpiffeId,
  spiffeIdProblem,
  trustDomainOf,
  trustDomainProblem,
} from './spiffe/spiffe-id.ts'
export { preparePrivateFolder, readPrivateFile } from './store/private-file.ts'
export { MIN_SECRET_LENGTH } from './text/hide-secret.ts'
export { rememberToken } from './text/known-secrets.ts'
export { hideUserinfo, oneLine, printable, scrub } from './text/scrub.ts'
export { systemErrorCode } from './text/system-error-code.ts'
export { backoff } from './time/backoff.ts'
export { type Clock, SystemClock } from './time/clock.ts'
export { abortWith, after, type Deadline, sleep, untilAborted, withDeadline } from './time/deadline.ts'
export { Semaphore } from './time/semaphore.ts'
export { type Element as DerElement, expectTag, readBits, readElements, readInside } from './x509/der.ts'
export { dnsNameProblem, dnsNamesProblem, isDnsLabel, MAX_DNS_NAMES } from './x509/dns-name.ts'
export { derToPem, pemToDer, splitCertificates } from './x509/pem.ts'
export { pemBlocks } from './x509/pem-blocks.ts'
export { privateKeyToPkcs8 } from './x509/private-key-der.ts'
export { privateKeyToPem } from './x509/private-key-pem.ts'
