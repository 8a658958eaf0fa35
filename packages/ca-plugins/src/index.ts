/** What had a place in the package's root before each part had a path of its own. */

export type {
  AuthorityRoot,
  CertificateAuthorityOptions,
  IssuedServerCertificate,
  SignedCertificate,
  SigningRequest,
} from './embedded/certificate-authority.ts'
export { CertificateAuthority } from './embedded/certificate-authority.ts'
export { EmbeddedClient } from './embedded/embedded.ts'
