/** Leaves for the generated key and for another, and before, in and after their dates. */
import type { KeyObject } from 'node:crypto'
import * as forge from '../certificate-forge.ts'
import type { Case } from './case.ts'
import { ecKey, HOUR, leaf, leafKey, MINUTE, NO_POINT, now, root, rsaKey, withDates } from './certificates.ts'

export function keyAndDateCases(): Record<string, Case> {
  const dated = (from: number, to: number) => [leaf(root, withDates(from, to))]
  const pem = (key: KeyObject, type: 'pkcs8' | 'sec1' | 'pkcs1') =>
    Buffer.from(key.export({ format: 'pem', type }).toString())
  const rsa = rsaKey()
  const rsaChain = [leaf(root, { publicKey: forge.spki(rsa) })]
  const chain = [leaf(root)]
  const parameters = Buffer.from('-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n')
  return {
    'another key': { chain, key: { publicKeyDer: forge.spki(ecKey()) }, refused: /for another key/ },
    'a key of another kind': { chain, key: { publicKeyDer: forge.spki(rsa) }, refused: /for another key/ },
    'a key that is a point at infinity': {
      chain: [leaf(root, { publicKey: NO_POINT })],
      refused: /for another key/,
    },
    'its own key as PKCS#8': { chain, key: { privateKeyPem: pem(leafKey, 'pkcs8') } },
    'its own key as SEC1': { chain, key: { privateKeyPem: pem(leafKey, 'sec1') } },
    'its own key after EC PARAMETERS': {
      chain,
      key: { privateKeyPem: Buffer.concat([parameters, pem(leafKey, 'sec1')]) },
    },
    'its own RSA key as PKCS#8': { chain: rsaChain, key: { privateKeyPem: pem(rsa, 'pkcs8') } },
    'its own RSA key as PKCS#1': { chain: rsaChain, key: { privateKeyPem: pem(rsa, 'pkcs1') } },
    'the private key of another': {
      chain,
      key: { privateKeyPem: pem(ecKey(), 'pkcs8') },
      refused: /belongs to another certificate/,
    },
    'a private key of another kind': {
      chain,
      key: { privateKeyPem: pem(rsa, 'pkcs1') },
      refused: /belongs to another certificate/,
    },
    'a private key of another curve': {
      chain,
      key: { privateKeyPem: pem(ecKey('P-384'), 'pkcs8') },
      refused: /belongs to another certificate/,
    },
    'a private key that is none': { chain, key: { privateKeyPem: Buffer.from('junk') }, refused: /does not parse/ },
    'an encrypted private key': {
      chain,
      key: {
        privateKeyPem: Buffer.from(
          leafKey.export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'x' }).toString(),
        ),
      },
      refused: /does not parse/,
    },
    expired: { chain: dated(now - HOUR, now - MINUTE), refused: /has expired/ },
    'expired this second': { chain: dated(now - HOUR, now - 500), refused: /has expired/ },
    'valid for half a second more': { chain: dated(now - HOUR, now + 500) },
    'not valid yet': { chain: dated(now + 6 * MINUTE, now + HOUR), refused: /only more than 5 minutes from now/ },
    'valid in five minutes': { chain: dated(now + 5 * MINUTE, now + HOUR) },
    'dates the wrong way round': { chain: dated(now + 2 * MINUTE, now + MINUTE), refused: /ends before it begins/ },
    'no time at all': { chain: dated(now, now), refused: /ends before it begins/ },
    'no end (RFC 5280: 9999)': { chain: dated(now - HOUR, Date.UTC(9999, 11, 31, 23, 59, 59)) },
    'dates in 2049 and 2050': { chain: dated(now - HOUR, Date.UTC(2050, 0, 1)) },
  }
}
