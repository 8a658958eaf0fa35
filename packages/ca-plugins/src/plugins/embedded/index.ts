/** The public names of `@livery/ca-plugins/embedded`. */

export type { CertificateAuthorityOptions } from './authority-state.ts'
export type {
  AuthorityRoot,
  IssuedServerCertificate,
  SignedCertificate,
  SigningRequest,
} from './certificate-authority.ts'
export { CertificateAuthority } from './certificate-authority.ts'
export { EmbeddedClient } from './client.ts'
export { embedded, embedded as plugin } from './plugin.ts'
export type { ServerNames } from './server-names.ts'
