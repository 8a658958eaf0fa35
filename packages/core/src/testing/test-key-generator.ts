/** A key generator on node:crypto for tests: real keys and CSRs, nothing to build. */
import 'reflect-metadata'
import { KeyObject, webcrypto } from 'node:crypto'
import { type Extension, Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from '@peculiar/x509'
import type { GeneratedKey, KeyGenerator, KeyRequest } from '../contract/key-generator.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

/** Makes ECDSA P-256 keys whatever type is asked for, and remembers every key that it handed out. */
export class TestKeyGenerator implements KeyGenerator {
  readonly name = 'test'
  /** The very bytes that were handed out: a test sees here that they were wiped. */
  readonly handedOut: Uint8Array[] = []

  async generate(request: KeyRequest, options: { readonly signal?: AbortSignal } = {}): Promise<GeneratedKey> {
    options.signal?.throwIfAborted()
    const keys = await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify'])
    const csr = await Pkcs10CertificateRequestGenerator.create({
      keys,
      signingAlgorithm: P256,
      extensions: [namesOf(request)],
    })
    const privateKeyPem = Buffer.from(KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }))
    this.handedOut.push(privateKeyPem)
    return {
      privateKeyPem,
      csrDer: new Uint8Array(csr.rawData),
      publicKeyDer: KeyObject.from(keys.publicKey).export({ type: 'spki', format: 'der' }),
    }
  }

  generateBatch(
    requests: readonly KeyRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly GeneratedKey[]> {
    return Promise.all(requests.map(request => this.generate(request, options)))
  }
}

function namesOf({ identity, dnsNames = [] }: KeyRequest): Extension {
  const names = dnsNames.map(value => ({ type: 'dns' as const, value }))
  return new SubjectAlternativeNameExtension([{ type: 'url', value: identity }, ...names], true)
}
