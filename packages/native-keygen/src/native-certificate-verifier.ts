/** The verifier in Rust: the addon reads the chain, core judges what it read. */
import { type CertificateVerifier, createCertificateVerifier } from '@livery/core'
import { type Addon, lookup } from './addon.ts'
import { NativeChainReader } from './native-chain-reader.ts'

/**
 * The checks of `nodeCertificateVerifier` (core) at a fraction of their cost; stricter where a certificate is malformed.
 * Absent without the addon.
 */
export const nativeCertificateVerifier: CertificateVerifier | undefined = lookup.addon && createVerifier(lookup.addon)

function createVerifier(addon: Addon): CertificateVerifier {
  const reader = new NativeChainReader(addon)
  return createCertificateVerifier(
    (chain, expected) => reader.read(chain, expected),
    (chain, expected) => reader.readLater(chain, expected),
  )
}
