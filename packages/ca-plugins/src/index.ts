/** The public names of `@livery/ca-plugins`. */

export type {
  AuthorityRoot,
  CertificateAuthorityOptions,
  SignedCertificate,
  SigningRequest,
} from './embedded/certificate-authority.ts'
export { CertificateAuthority } from './embedded/certificate-authority.ts'
export type { ServerNames } from './embedded/certificate-profiles.ts'
export type { EmbeddedConfig } from './embedded/embedded.ts'
export { createEmbedded, EmbeddedClient } from './embedded/embedded.ts'
export type { PluginContext } from './plugin-context.ts'
