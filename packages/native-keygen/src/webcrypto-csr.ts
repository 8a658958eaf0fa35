/** CSRs (PKCS#10) of WebCrypto's keys, by @peculiar/x509. */
import 'reflect-metadata'
import type { webcrypto } from 'node:crypto'
import type { SpiffeId } from '@livery/core/plugin'
import { Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from '@peculiar/x509'

/** As DER: no subject, and the identity as its one name. */
export async function makeCsr(
  identity: SpiffeId,
  keys: webcrypto.CryptoKeyPair,
  signingAlgorithm: webcrypto.EcdsaParams,
): Promise<Uint8Array> {
  const csr = await Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm,
    extensions: [new SubjectAlternativeNameExtension([{ type: 'url', value: identity }], true)],
  })
  return new Uint8Array(csr.rawData)
}
