/** The checks that the suite makes of one generated key. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { GeneratedKey, KeyRequest, KeyType, PrivateKeyFormat } from '@livery/core/plugin'
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from '@peculiar/x509'

const P256 = { namedCurve: 'prime256v1' }
const P384 = { namedCurve: 'secp384r1' }

const DETAILS: Readonly<Record<KeyType, object>> = {
  'ecdsa-p256': P256,
  'ecdsa-p384': P384,
  'rsa-2048': { modulusLength: 2048, publicExponent: 65537n },
  'rsa-3072': { modulusLength: 3072, publicExponent: 65537n },
  'rsa-4096': { modulusLength: 4096, publicExponent: 65537n },
}

/** The PEM is of that form, Node loads it, and it is the private half of `publicKeyDer`. */
export function assertPrivateKey(
  key: GeneratedKey,
  { type, format }: { readonly type: KeyType; readonly format: PrivateKeyFormat },
): void {
  const pem = Buffer.from(key.privateKeyPem)
  const label = format === 'pkcs8' ? 'PRIVATE KEY' : type.startsWith('rsa-') ? 'RSA PRIVATE KEY' : 'EC PRIVATE KEY'
  const lines = pem.toString('latin1').split('\n')
  assert.equal(lines[0], `-----BEGIN ${label}-----`)
  assert.deepEqual(lines.slice(-2), [`-----END ${label}-----`, ''], 'one newline at the end')
  assert.ok(lines.every(line => line.length <= 64))
  const privateKey = createPrivateKey(pem)
  assert.deepEqual(privateKey.asymmetricKeyDetails, DETAILS[type])
  const publicKeyDer = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  assert.deepEqual(publicKeyDer, Buffer.from(key.publicKeyDer))
}

/** The CSR is signed by its key with the hash of its type, and asks for nothing but the identity. */
export async function assertCsr(
  key: GeneratedKey,
  { type, identity, dnsNames = [] }: Pick<KeyRequest, 'type' | 'identity' | 'dnsNames'>,
): Promise<void> {
  const csr = new Pkcs10CertificateRequest(Uint8Array.from(key.csrDer))
  assert.equal(await csr.verify(), true, 'the signature verifies')
  assert.deepEqual(Buffer.from(csr.publicKey.rawData), Buffer.from(key.publicKeyDer))
  assert.equal(csr.subject, '')
  assert.equal(csr.signatureAlgorithm.hash.name, type === 'ecdsa-p384' ? 'SHA-384' : 'SHA-256')
  assert.equal(csr.attributes.length, 1)
  assert.equal(csr.extensions.length, 1)
  const [san] = csr.extensions
  assert.ok(san instanceof SubjectAlternativeNameExtension)
  assert.equal(san.critical, true)
  const dns = dnsNames.map(value => ({ type: 'dns', value }))
  assert.deepEqual(san.names.toJSON(), [{ type: 'url', value: identity }, ...dns])
}

/** The output of `openssl req -verify` on a CSR; `undefined` where there is no openssl. */
export async function verifyWithOpenSsl(csrDer: Uint8Array): Promise<string | undefined> {
  const openssl = spawn('openssl', ['req', '-inform', 'DER', '-verify', '-noout'])
  openssl.stdin.on('error', () => {}) // EPIPE where it did not start: `once` below reports that.
  openssl.stdin.end(csrDer)
  const output = Promise.all([text(openssl.stdout), text(openssl.stderr)])
  try {
    await once(openssl, 'close')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  return (await output).join('')
}
