/** The public names of `@livery/ca-plugins/istio-ca-server`. */

export type { Authenticator, Caller, CallerCredentials, CurrentGrants, TokenGrant } from './authenticators.ts'
export { checkGrants, clientCertificates, listedTokens, staticTokens } from './authenticators.ts'
export type { IstioCaServerEvent, IstioCaServerOptions } from './istio-ca-server.ts'
export { IstioCaServer } from './istio-ca-server.ts'
export { type ReviewedTokensOptions, reviewedTokens } from './token-review.ts'
