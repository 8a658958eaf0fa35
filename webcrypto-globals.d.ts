// The names of WebCrypto that @peculiar/x509's declarations take from the browser's library, as Node has them.
import type { webcrypto } from 'node:crypto'

declare global {
  type Algorithm = webcrypto.Algorithm
  type AlgorithmIdentifier = webcrypto.AlgorithmIdentifier
  type BufferSource = webcrypto.BufferSource
  type Crypto = webcrypto.Crypto
  type CryptoKey = webcrypto.CryptoKey
  type CryptoKeyPair = webcrypto.CryptoKeyPair
  type EcdsaParams = webcrypto.EcdsaParams
  type EcKeyGenParams = webcrypto.EcKeyGenParams
  type EcKeyImportParams = webcrypto.EcKeyImportParams
  type KeyUsage = webcrypto.KeyUsage
  type RsaHashedImportParams = webcrypto.RsaHashedImportParams
  type RsaHashedKeyGenParams = webcrypto.RsaHashedKeyGenParams
}
