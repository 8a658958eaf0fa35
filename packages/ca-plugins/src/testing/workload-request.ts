/** A workload's request as the SecretManager would make it, for tests of CA plugins and servers. */
import 'reflect-metadata'
import { KeyObject, webcrypto } from 'node:crypto'
import { type CertificateRequest, derToPem, isSpiffeId, type SpiffeId } from '@livery/core/plugin'
import * as x509 from '@peculiar/x509'

export interface WorkloadRequest extends CertificateRequest {
  /** The key that the CSR is signed by, PKCS#8 PEM. */
  readonly privateKeyPem: string
  readonly csrPem: string
  readonly csrDer: Uint8Array
}

export interface WorkloadRequestOptions {
  /** Default 3600. */
  readonly ttlSeconds?: number
  readonly tokenFile?: string
  readonly signal?: AbortSignal
  readonly dnsNames?: readonly string[]
  /** The URI in the CSR, if it differs from the request's. */
  readonly csrUri?: string
  /** Default `ecdsa-p256`. */
  readonly keyType?: 'ecdsa-p256' | 'rsa-1024' | 'rsa-2048'
}

/** A request with a real key and CSR. */
export async function workloadRequest(
  identity: string,
  options: WorkloadRequestOptions = {},
): Promise<WorkloadRequest> {
  const keys = await generate(options.keyType ?? 'ecdsa-p256')
  const { dnsNames = [] } = options
  const names = dnsNames.map(value => ({ type: 'dns' as const, value }))
  const uri = { type: 'url' as const, value: options.csrUri ?? identity }
  const san = new x509.SubjectAlternativeNameExtension([uri, ...names], true)
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: { name: keys.privateKey.algorithm.name, hash: 'SHA-256' },
    extensions: [san],
  })
  const csrDer = new Uint8Array(request.rawData)
  const csrPem = derToPem(csrDer, 'CERTIFICATE REQUEST')
  return {
    identity: asSpiffeId(identity),
    ...(dnsNames.length > 0 && { dnsNames }),
    ttlSeconds: options.ttlSeconds ?? 3600,
    ...(options.tokenFile !== undefined && { tokenFile: options.tokenFile }),
    signal: options.signal ?? new AbortController().signal,
    csr: async () => ({ der: csrDer, pem: csrPem }),
    privateKeyPem: KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString(),
    csrPem,
    csrDer,
  }
}

function generate(keyType: 'ecdsa-p256' | 'rsa-1024' | 'rsa-2048'): Promise<webcrypto.CryptoKeyPair> {
  if (keyType === 'ecdsa-p256')
    return webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])
  const modulusLength = keyType === 'rsa-1024' ? 1024 : 2048
  const publicExponent = new Uint8Array([1, 0, 1])
  const algorithm = { name: 'RSASSA-PKCS1-v1_5', modulusLength, publicExponent, hash: 'SHA-256' }
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}

function asSpiffeId(identity: string): SpiffeId {
  if (isSpiffeId(identity)) return identity
  throw new TypeError(`Cannot make a request: ${identity} is not a SPIFFE ID`)
}
