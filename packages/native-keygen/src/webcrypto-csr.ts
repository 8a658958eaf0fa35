/** CSRs (PKCS#10) of WebCrypto's keys, by @peculiar/x509. */
import 'reflect-metadata'
import type { webcrypto } from 'node:crypto'
import type { KeyRequest } from '@livery/core/plugin'
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509'

/** As DER: no subject, and the identity and the DNS names as its names. */
export async function makeCsr(
  { identity, dnsNames }: Pick<Required<KeyRequest>, 'identity' | 'dnsNames'>,
  keys: webcrypto.CryptoKeyPair,
  signingAlgorithm: webcrypto.EcdsaParams,
): Promise<Uint8Array> {
  const names: JsonGeneralNames = [
    { type: 'url', value: identity },
    ...dnsNames.map(value => ({ type: 'dns' as const, value })),
  ]
  const csr = await Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm,
    extensions: [new SubjectAlternativeNameExtension(names, true)],
  })
  return new Uint8Array(csr.rawData)
}
