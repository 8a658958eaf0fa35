/** A key and the request signed with it, as the agent's key generator would make them. */
import 'reflect-metadata'
import { KeyObject, webcrypto } from 'node:crypto'
import { type CertificateSigningRequest, derToPem, type KeyType, type SpiffeId } from '@livery/core/plugin'
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509'
import { generateKeys, publicKeyOf } from '../../plugins/embedded/certificate-profiles.ts'

export interface KeyMaterial {
  readonly csr: CertificateSigningRequest
  /** SubjectPublicKeyInfo. */
  readonly publicKeyDer: Uint8Array
  /** PKCS#8 PEM, newline at the end. */
  exportPrivateKey(): Uint8Array
}

export async function createKeyMaterial(
  identity: SpiffeId,
  keyType: KeyType,
  dnsNames: readonly string[] = [],
): Promise<KeyMaterial> {
  const keys = await generateKeys(keyType)
  const der = await signRequest([{ type: 'url', value: identity }, ...dnsNames.map(dnsNameOf)], keys)
  return {
    csr: { der, pem: derToPem(der, 'CERTIFICATE REQUEST') },
    publicKeyDer: await publicKeyOf(keys),
    exportPrivateKey: () => Buffer.from(KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' })),
  }
}

function dnsNameOf(value: string): JsonGeneralNames[number] {
  return { type: 'dns', value }
}

async function signRequest(names: JsonGeneralNames, keys: webcrypto.CryptoKeyPair): Promise<Uint8Array> {
  const request = await Pkcs10CertificateRequestGenerator.create(
    {
      keys,
      signingAlgorithm: { name: keys.privateKey.algorithm.name, hash: 'SHA-256' },
      extensions: [new SubjectAlternativeNameExtension(names, true)],
    },
    webcrypto,
  )
  return new Uint8Array(request.rawData)
}
