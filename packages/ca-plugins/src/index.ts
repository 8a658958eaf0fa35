/** The public names of `@livery/ca-plugins`: the embedded CA and its server. Each other plugin has a path of its own, so that only the one in use is loaded. */

export type {
  AuthorityRoot,
  CertificateAuthorityOptions,
  IssuedServerCertificate,
  SignedCertificate,
  SigningRequest,
} from './embedded/certificate-authority.ts'
export { CertificateAuthority } from './embedded/certificate-authority.ts'
export type { EmbeddedConfig } from './embedded/embedded.ts'
export { createEmbedded, EmbeddedClient } from './embedded/embedded.ts'
export type { ServerNames } from './embedded/server-names.ts'
export type { Authenticator, Caller, CallerCredentials, TokenGrant } from './istio-ca-server/authenticators.ts'
export { clientCertificates, staticTokens } from './istio-ca-server/authenticators.ts'
export type { IstioCaServerEvent, IstioCaServerOptions } from './istio-ca-server/istio-ca-server.ts'
export { IstioCaServer } from './istio-ca-server/istio-ca-server.ts'
export type { JwtTokensOptions } from './istio-ca-server/jwt-authenticator.ts'
export { jwtTokens } from './istio-ca-server/jwt-authenticator.ts'
export type { PluginContext } from './plugin-context.ts'
