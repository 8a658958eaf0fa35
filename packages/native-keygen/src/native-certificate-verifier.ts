/** The verifier in Rust: the addon reads the chain, core judges what it read. */
import { type CertificateVerifier, createCertificateVerifier } from '@livery/core'
import { type Addon, lookup } from './addon.ts'
import { NativeChainReader } from './native-chain-reader.ts'

/** Judges paths by aws-lc, whose X.509 code is Envoy's, at a fraction of what `nodeCertificateVerifier` (core) costs. Absent without the addon. */
export const nativeCertificateVerifier: CertificateVerifier | undefined = lookup.addon && createVerifier(lookup.addon)

function createVerifier(addon: Addon): CertificateVerifier {
  const reader = new NativeChainReader(addon)
  return createCertificateVerifier(
    (chain, expected) => reader.read(chain, expected),
    (chain, expected) => reader.readLater(chain, expected),
    root => reader.readsRoot(root),
  )
}
