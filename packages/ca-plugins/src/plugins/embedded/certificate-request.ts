/** The CSRs that the embedded CA accepts: PKCS#10 (RFC 2986), signed by a key that is strong enough. */
import 'reflect-metadata'
import { verify } from 'node:crypto'
import { promisify } from 'node:util'
import type { CAError } from '@livery/core'
import * as x509 from '@peculiar/x509'
import { caError } from '../../answers/ca-error.ts'
import { firstChild } from './der.ts'

/** A request with a 4096-bit key and a URI of 2,048 bytes has under 4 kB. */
const MAX_BYTES = 16_384
const MIN_RSA_BITS = 2048
/** Verifying costs with the square of the length: beyond this a caller could keep the CA busy. */
const MAX_RSA_BITS = 8192

const verifyAsync = promisify(verify)

/** The public key of `csr` (DER; the key too, as SPKI), whose owner has signed it. Rejects with a `CAError` `invalid-csr`. */
export async function verifiedPublicKey(csr: Uint8Array): Promise<Uint8Array> {
  if (csr.byteLength > MAX_BYTES) throw invalid(`it has ${csr.byteLength} bytes, more than ${MAX_BYTES}`)
  const { hash, publicKey, signed, signature } = parse(csr)
  const problem = keyProblem(publicKey.algorithm)
  if (problem) throw invalid(problem)
  if (hash === undefined)
    throw invalid('its signature algorithm is neither ECDSA nor RSA with a hash that this CA knows')
  const key = Buffer.from(publicKey.rawData)
  const isSigned = await verifyAsync(hash, signed, { key, format: 'der', type: 'spki' }, signature).catch(() => false)
  if (!isSigned) throw invalid('its signature is not by the key that it holds')
  return key
}

function parse(csr: Uint8Array) {
  try {
    // Copied, since the parser keeps views and a pooled Buffer's memory is reused.
    const request = new x509.Pkcs10CertificateRequest(new Uint8Array(csr))
    const { signatureAlgorithm: algorithm } = request
    // One that the parser does not know has none, whatever its types say.
    const hash = 'hash' in algorithm ? algorithm.hash.name.replace('-', '') : undefined
    return { hash, publicKey: request.publicKey, signed: firstChild(csr), signature: Buffer.from(request.signature) }
  } catch (error) {
    throw invalid('it is not a PKCS#10 request', error)
  }
}

function keyProblem(algorithm: Algorithm & { modulusLength?: number; namedCurve?: string }): string | undefined {
  if (algorithm.name === 'RSASSA-PKCS1-v1_5') {
    const bits = algorithm.modulusLength ?? 0
    if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS)
      return `its RSA key has ${bits} bits, not ${MIN_RSA_BITS} to ${MAX_RSA_BITS}`
    return undefined
  }
  if (algorithm.name === 'ECDSA' && (algorithm.namedCurve === 'P-256' || algorithm.namedCurve === 'P-384'))
    return undefined
  return 'its key is neither RSA nor ECDSA on P-256 or P-384'
}

function invalid(reason: string, cause?: unknown): CAError {
  return caError('invalid-csr', { action: 'sign the certificate request', reason, remedy: 'Send a new one', cause })
}
