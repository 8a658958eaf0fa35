/** The public names of `@livery/core`. */

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
  CAMember,
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
export { Events } from './contract/events.ts'
export type {
  GeneratedKey,
  KeyGenerator,
  KeyRequest,
  KeyType,
  PrivateKeyFormat,
} from './contract/key-generator.ts'
export { KEY_TYPES } from './contract/key-generator.ts'
export { type KeyVault, plainKeyVault, SealedKey } from './contract/key-vault.ts'
export type { PeerCredentials, ReadPeerCredentials } from './contract/peer-credentials.ts'
export type { ConfigOf, PluginOption, PluginOptions } from './contract/plugin-options.ts'
export { OptionError } from './contract/plugin-options.ts'
export type { RootListener, RootSource } from './contract/root-source.ts'
export type { SecretEvent, SecretReport } from './contract/secret-event.ts'
export type {
  BootstrapCertificate,
  PendingRequest,
  PendingRequests,
  Store,
  StoredCertificate,
  StoreErrorCode,
  StoreFailure,
  StoreFailureReport,
} from './contract/store.ts'
export { StoreError } from './contract/store.ts'
export type { RootPhase, StoredRoot, TrustAnchor } from './contract/trust-anchor.ts'
export { MAX_ROOT_LENGTH, MAX_ROOTS, MAX_ROOTS_LENGTH } from './contract/trust-anchor.ts'
export { LATEST_CHANGE } from './decide/renewal-time.ts'
export { FileFault, type FileFaultParts, readFault } from './file-secrets/file-fault.ts'
export type { FileSecretEntry } from './file-secrets/file-secret.ts'
export {
  type FilePattern,
  foldersOf,
  formatFileName,
  isFileName,
  matchesFilePattern,
  parseFileName,
  parseFilePattern,
} from './file-secrets/file-secret-name.ts'
export { FILE_DEFAULTS, FileSecrets, type FileSecretsOptions } from './file-secrets/file-secrets.ts'
export { isSelfSigned, type KeyPair, type KeyPairFiles, MAX_FILE_BYTES, readKeyPair } from './file-secrets/key-pair.ts'
export { ChangingFile, readSmallFile } from './files/changing-file.ts'
export { stampOf, stampsOf } from './files/file-stamp.ts'
export { MAX_SOCKET_PATH_BYTES } from './files/socket-path-limit.ts'
export {
  checkFile,
  checkFolder,
  makeFolder,
  type OpenedFile,
  type PathTrust,
  shareFolders,
  UntrustedPathError,
} from './files/trusted-path.ts'
export { type LookReason, WatchedFiles, type WatchedFilesOptions } from './files/watched-files.ts'
export type { BundleEntry } from './secret-manager.ts'
export { SecretManager } from './secret-manager.ts'
export { DEFAULT_OPTIONS, type SecretManagerOptions } from './secret-manager-options.ts'
export type { Receipts, StreamReceipts } from './secrets/receipts.ts'
export type { SecretItem } from './secrets/secret-item.ts'
export { ALL_BUNDLES, AllBundlesSecret, CertificateSecret, TrustBundleSecret } from './secrets/secret-item.ts'
export type { FileSecretName, SecretName, Watch } from './secrets/watch.ts'
export type { SpiffeId } from './spiffe/spiffe-id.ts'
export { isSpiffeId, parseSpiffeId, spiffeIdProblem, trustDomainOf, trustDomainProblem } from './spiffe/spiffe-id.ts'
export {
  matchesSpiffePattern,
  parseSpiffePattern,
  type SpiffePattern,
  spiffePatternProblem,
} from './spiffe/spiffe-pattern.ts'
export {
  FAILURE_CODES,
  type FailureCode,
  IDENTITY_STATES,
  type IdentityEntry,
  type IdentityState,
} from './state/entry.ts'
export { PAUSE_REASONS, type PauseReason, type ScheduleStatus } from './state/schedule-status.ts'
export type { IdleAction } from './state/unused.ts'
export type { FileStoreOptions } from './store/file-store.ts'
export { FileStore } from './store/file-store.ts'
export { preparePrivateFolder, readPrivateFile } from './store/private-file.ts'
export { MIN_SECRET_LENGTH } from './text/hide-secret.ts'
export { rememberToken } from './text/known-secrets.ts'
export { hideUserinfo, oneLine, printable, type ScrubOptions, scrub } from './text/scrub.ts'
export { systemErrorCode } from './text/system-error-code.ts'
export { backoff, type RetryPolicy } from './time/backoff.ts'
export type { Clock } from './time/clock.ts'
export { SystemClock } from './time/clock.ts'
export { abortWith, after, type Deadline, sleep, withDeadline } from './time/deadline.ts'
export { Semaphore } from './time/semaphore.ts'
export { untilAborted } from './time/until-aborted.ts'
export type {
  RootAction,
  RootActionResult,
  RootStatus,
  RotationPhase,
  RotationStatus,
} from './trust/rotation-status.ts'
export { defaultSettleMs, hearingTime, type SettleFacts } from './trust/settle-time.ts'
export { readSpiffeBundle, type SpiffeBundle } from './trust/spiffe-bundle.ts'
export { TrustFile, type TrustFileOptions } from './trust/trust-file.ts'
export type {
  CertificateVerifier,
  ChainFacts,
  ChainPath,
  Expectation,
  ReadChain,
  ReadChainLater,
  VerifiedChain,
} from './x509/ca-answer-verifier.ts'
export { createCertificateVerifier, MAX_CLOCK_SKEW_MS, nodeCertificateVerifier } from './x509/ca-answer-verifier.ts'
export { type Element as DerElement, expectTag, readBits, readElements, readInside } from './x509/der.ts'
export { derToPem, pemToDer, splitCertificates } from './x509/pem.ts'
export { type PemBlock, pemBlocks } from './x509/pem-blocks.ts'
export { privateKeyToPkcs8 } from './x509/private-key-der.ts'
export { privateKeyToPem } from './x509/private-key-pem.ts'
