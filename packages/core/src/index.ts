/** The public names of `@livery/core`: the SecretManager, its reports and its collaborators. Plugins import from `/plugin`. */

export type { CertificateVerifier, ChainFacts, Expectation, VerifiedChain } from './contract/certificate-verifier.ts'
export type { CertificateWish } from './contract/certificate-wish.ts'
export { Events } from './contract/events.ts'
export { type KeyVault, plainKeyVault, SealedKey } from './contract/key-vault.ts'
export type { PeerCredentials, ReadPeerCredentials } from './contract/peer-credentials.ts'
export type { RootListener, RootSource } from './contract/root-source.ts'
export type { SecretEvent, SecretReport } from './contract/secret-event.ts'
export { type Store, StoreError } from './contract/store.ts'
export { LATEST_CHANGE } from './decide/renewal-time.ts'
export { type LookReason, WatchedFiles } from './files/watched-files.ts'
export { SecretManager } from './secret-manager.ts'
export { DEFAULT_OPTIONS, type SecretManagerOptions } from './secret-manager-options.ts'
export { CertificateSecret } from './secrets/certificate-secret.ts'
export {
  ALL_BUNDLES,
  AllBundlesSecret,
  type SecretItem,
  TokenSecret,
  TrustBundleSecret,
} from './secrets/secret-item.ts'
export type { FileSecretName, KubernetesObject, SecretName, TokenName } from './secrets/secret-name.ts'
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
export { PAUSE_REASONS, type ScheduleStatus } from './state/schedule-status.ts'
export { FileStore } from './store/file-store.ts'
export { readStoreKey } from './store/store-key.ts'
export type { Receipts, StreamReceipts } from './trust/bundle-receipts.ts'
export type {
  BundleEntry,
  RootAction,
  RootActionResult,
  RootStatus,
  RotationPhase,
  RotationStatus,
} from './trust/rotation-status.ts'
export { defaultSettleMs, hearingTime, type SettleFacts } from './trust/settle-time.ts'
export { readSpiffeBundle } from './trust/spiffe-bundle.ts'
export { TrustFile } from './trust/trust-file.ts'
export { createCertificateVerifier } from './x509/ca-answer-verifier.ts'
export { nodeCertificateVerifier } from './x509/node-chain-reader.ts'
