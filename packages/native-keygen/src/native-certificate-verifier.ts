/** The verifier in Rust: `rust/certificate/bridge.rs` reads the chain, core judges what it read. */
import type { X509Certificate } from 'node:crypto'
import {
  type CertificateVerifier,
  createCertificateVerifier,
  MAX_CLOCK_SKEW_MS,
  type PathRefusal,
  type PathRule,
  type ReadChain,
} from '@livery/core'
import { type Addon, lookup } from './addon.ts'
import type { ChainFacts } from './gen/binding.ts'

/**
 * The checks of `nodeCertificateVerifier` (core) at a fraction of their cost; stricter where a certificate is malformed.
 * Absent without the addon.
 */
export const nativeCertificateVerifier: CertificateVerifier | undefined =
  lookup.addon && createCertificateVerifier(readChainWith(lookup.addon))

function readChainWith(addon: Addon): ReadChain {
  const readAnchor = anchorReader(addon)
  return (chain, expected) => {
    const anchors = expected.anchors.map(readAnchor)
    const answer = addon.readChain({
      chain: [...chain],
      anchors: anchors.filter(anchor => anchor !== undefined),
      ...expected.key,
      now: expected.now,
      maxClockSkew: MAX_CLOCK_SKEW_MS,
    })
    if (typeof answer === 'number') return { unreadable: answer }
    const { path, refusal } = answer
    return {
      ...answer,
      uris: answer.uris,
      keyMatches: answer.keyMatches,
      path: () => path ?? { refused: refusal && placed(refusal, chain.length, anchors) },
    }
  }
}

/** The addon does not count the anchors that cannot be read. */
function placed(
  { rule, at }: NonNullable<ChainFacts['refusal']>,
  chainLength: number,
  anchors: readonly (Anchor | undefined)[],
): PathRefusal {
  const readable = [...anchors.keys()].filter(index => anchors[index])
  const anchor = readable[at - chainLength]
  return { rule: rule as PathRule, at: anchor === undefined ? at : chainLength + anchor }
}

type Anchor = InstanceType<Addon['TrustAnchor']>

/** Reads each root once; one that cannot be read leads nowhere. */
function anchorReader(addon: Addon): (certificate: X509Certificate) => Anchor | undefined {
  const anchors = new WeakMap<X509Certificate, { readonly anchor: Anchor | undefined }>()
  return certificate => {
    const known = anchors.get(certificate)
    if (known) return known.anchor
    const anchor = readOrUndefined(addon, certificate)
    anchors.set(certificate, { anchor })
    return anchor
  }
}

function readOrUndefined(addon: Addon, certificate: X509Certificate): Anchor | undefined {
  try {
    return new addon.TrustAnchor(certificate.raw)
  } catch {
    return undefined
  }
}
