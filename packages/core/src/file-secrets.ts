/** The public names of `@livery/core/file-secrets`: secrets that others write, in files, in Kubernetes Secrets, as tokens; and their names. */

export type { FileSecretEntry } from './file-secrets/file-secret.ts'
export {
  type FilePattern,
  foldersOf,
  formatFileName,
  isFileName,
  isOfSecret,
  matchesFilePattern,
  parseFileName,
  parseFilePattern,
} from './file-secrets/file-secret-name.ts'
export { FILE_DEFAULTS, FileSecrets, type FileSecretsOptions } from './file-secrets/file-secrets.ts'
export type { SecretObjects } from './file-secrets/object-place.ts'
export type { FollowedToken, PodTokenSource } from './file-secrets/token-place.ts'
