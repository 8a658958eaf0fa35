/** Trust bundles in Envoy's form. */
import type { AllBundlesSecret, TrustBundleSecret } from '@livery/core'
import type { CertificateValidationContext } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { SPIFFECertValidatorConfig } from '../gen/envoy/extensions/transport_sockets/tls/v3/tls_spiffe_validator_config.ts'

const SPIFFE_VALIDATOR = 'envoy.tls.cert_validator.spiffe'
const SPIFFE_VALIDATOR_TYPE_URL =
  'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig'

const NO_CRL = Buffer.alloc(0)

export function validationContext(item: TrustBundleSecret | AllBundlesSecret): CertificateValidationContext {
  const none = { trustedCa: undefined, crl: undefined, customValidatorConfig: undefined }
  if (item.kind === 'bundle') {
    const crl = item.crl && { inlineBytes: Buffer.from(item.crl) }
    return { ...none, trustedCa: { inlineBytes: Buffer.from(item.trustedCa) }, crl }
  }
  const trustDomains = item.bundles.map(({ trustDomain: name, bundle }) => ({
    name,
    // Envoy's SPIFFE validator takes revocation lists from among the roots.
    trustBundle: { inlineBytes: Buffer.concat([bundle.trustedCa, bundle.crl ?? NO_CRL]) },
  }))
  const value = Buffer.from(SPIFFECertValidatorConfig.encode({ trustDomains }).finish())
  const typedConfig = { typeUrl: SPIFFE_VALIDATOR_TYPE_URL, value }
  return { ...none, customValidatorConfig: { name: SPIFFE_VALIDATOR, typedConfig } }
}
