/** The public names of `@livery/native-keygen`. */

export type { KeyGeneratorChoice, KeyGeneratorOptions } from './create-key-generator.ts'
export { createKeyGenerator } from './create-key-generator.ts'
export type { RsaKeys } from './defaults.ts'
export type { AcceptedConnections } from './kernel.ts'
export { acceptWaiting, disableCoreDumps, readPeerCgroups, readPeerCredentials } from './kernel.ts'
export { nativeCertificateVerifier } from './native-certificate-verifier.ts'
export type { ChosenKeyVault } from './native-key-vault.ts'
export { createKeyVault } from './native-key-vault.ts'
