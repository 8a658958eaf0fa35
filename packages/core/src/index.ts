/** The public names of `@livery/core`. */

export type {
  CAChange,
  CAClient,
  CAErrorCode,
  CertificateRequest,
  CertificateSigningRequest,
  IssuedCertificate,
  RequestTicket,
} from './ca-client.ts'
export { CAError } from './ca-client.ts'
export type {
  AgentKey,
  CACapabilities,
  CAContext,
  CAMember,
  CAPlugin,
  ClientCertificate,
  PluginLog,
  PluginMetrics,
  PluginNeed,
  TlsMaterial,
} from './ca-plugin.ts'
export { CA_PLUGIN_API_VERSION, defineCAPlugin } from './ca-plugin.ts'
export type {
  CertificateVerifier,
  ChainFacts,
  ChainPath,
  Expectation,
  ReadChain,
  VerifiedChain,
} from './certificate-verifier.ts'
export { createCertificateVerifier, MAX_CLOCK_SKEW_MS, nodeCertificateVerifier } from './certificate-verifier.ts'
export type { Clock } from './clock.ts'
export { SystemClock } from './clock.ts'
export type {
  Credential,
  CredentialContext,
  CredentialPlugin,
  CredentialRequest,
  CredentialSource,
} from './credentials.ts'
export { CREDENTIAL_PLUGIN_API_VERSION, defineCredentialPlugin } from './credentials.ts'
export type { FileStoreOptions } from './file-store.ts'
export { FileStore } from './file-store.ts'
export type {
  GeneratedKey,
  KeyGenerator,
  KeyPoolStatus,
  KeyRequest,
  KeyType,
  PrivateKeyFormat,
} from './key-generator.ts'
export { KEY_TYPES } from './key-generator.ts'
export { type KeyVault, plainKeyVault, SealedKey } from './key-vault.ts'
export { Limit } from './limit.ts'
export type { IdentityEntry } from './managed-identity.ts'
export type { PeerCredentials, ReadPeerCredentials } from './peer-credentials.ts'
export { derToPem, pemToDer, splitCertificates } from './pem.ts'
export type { ConfigOf, PluginOption, PluginOptions } from './plugin-options.ts'
export { OptionError } from './plugin-options.ts'
export { preparePrivateFolder, readPrivateFile } from './private-file.ts'
export type { ResourceName, WellKnownNames } from './resource-name.ts'
export { parseResourceName } from './resource-name.ts'
export type { IdleAction } from './retention.ts'
export { oneLine, type ScrubOptions, scrub } from './scrub.ts'
export type { LedgerEntry, LedgerEvent } from './secret-event.ts'
export type { SecretItem } from './secret-item.ts'
export { CertificateSecret, TrustBundleSecret } from './secret-item.ts'
export type { BundleEntry, SecretName } from './secret-manager.ts'
export { SecretManager } from './secret-manager.ts'
export type { SecretManagerOptions } from './secret-manager-options.ts'
export type { SpiffeId } from './spiffe-id.ts'
export { isSpiffeId, parseSpiffeId, spiffeIdProblem, trustDomainOf, trustDomainProblem } from './spiffe-id.ts'
export type {
  BootstrapCertificate,
  PendingRequest,
  PendingRequests,
  Store,
  StoredCertificate,
  StoreErrorCode,
  StoreFailure,
} from './store.ts'
export { StoreError } from './store.ts'
export type { StoredRoot, TrustAnchor } from './trust-anchor.ts'
export { MAX_ROOT_LENGTH, MAX_ROOTS, MAX_ROOTS_LENGTH } from './trust-anchor.ts'
export {
  checkFile,
  checkFolder,
  makeFolder,
  type OpenedFile,
  type PathTrust,
  shareFolders,
  UntrustedPathError,
} from './trusted-path.ts'
export { untilAborted } from './until-aborted.ts'
export { type LookReason, WatchedFiles, type WatchedFilesOptions } from './watched-files.ts'
export type { PathRefusal, PathRule } from './x509/chain-path.ts'
