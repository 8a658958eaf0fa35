/** Signature algorithms that a chain may use. */
import { generateKeyPairSync } from 'node:crypto'
import * as forge from '../certificate-forge.ts'
import { type Case, NO_PATH } from './case.ts'
import { ecKey, leaf, makeIssuer, root, rsaKey } from './certificates.ts'

export function algorithmCases(): Record<string, Case> {
  const under = (options: Parameters<typeof makeIssuer>[1]): Case => {
    const parent = makeIssuer('parent', options)
    const child = makeIssuer('child', { ...options, key: options?.key ?? ecKey(), parent })
    return { chain: [leaf(child), child.der], roots: [parent.der] }
  }
  const rsa = rsaKey()
  const wrongSalt = { ...forge.rsaPss(256), algorithm: forge.rsaPss(256, 20).algorithm }
  return {
    'P-256 with SHA-512': under({ scheme: forge.ECDSA_SHA512 }),
    'P-384 with SHA-384': under({ key: ecKey('P-384'), scheme: forge.ECDSA_SHA384 }),
    'P-384 with SHA-256': under({ key: ecKey('P-384') }),
    'P-521 with SHA-512': under({ key: ecKey('P-521'), scheme: forge.ECDSA_SHA512 }),
    Ed25519: under({ key: generateKeyPairSync('ed25519').privateKey, scheme: forge.ED25519 }),
    'RSA-2048 with SHA-256': under({ key: rsa, scheme: forge.RSA_SHA256 }),
    'RSA-3072 with SHA-256': under({ key: rsaKey(3072), scheme: forge.RSA_SHA256 }),
    'RSA-PSS with SHA-256': under({ key: rsa, scheme: forge.rsaPss(256) }),
    'RSA-PSS with SHA-384': under({ key: rsa, scheme: forge.rsaPss(384) }),
    'RSA-PSS with SHA-512': under({ key: rsa, scheme: forge.rsaPss(512) }),
    'RSA-PSS with another salt than it says': { ...under({ key: rsa, scheme: wrongSalt }), refused: NO_PATH },
    'another algorithm inside than outside': {
      chain: [leaf(root, { algorithm: forge.ECDSA_SHA384.algorithm })],
      refused: NO_PATH,
    },
  }
}
