/** Rules for the CA certificates of a path: usages, critical extensions, path length, algorithms. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import * as forge from '../certificate-forge.ts'
import { belowMiddle, type Case, refusedByAddon } from './case.ts'
import {
  CA_EXTENSIONS,
  CA_KEY_USAGE,
  ecKey,
  LEAF_EXTENSIONS,
  leaf,
  makeIssuer,
  root,
  rsaKey,
  withExtensions,
} from './certificates.ts'

const { der, sequence, extension } = forge

export function issuerRuleCases(): Record<string, Case> {
  const codeSigning = forge.extendedKeyUsage('1.3.6.1.5.5.7.3.3')
  const any = forge.extendedKeyUsage('2.5.29.37.0')
  const tls = LEAF_EXTENSIONS.extendedKeyUsage
  const usage = (...bits: readonly number[]): Case => ({
    chain: [leaf(root, withExtensions({ keyUsage: forge.keyUsage(...bits) }))],
  })
  const NO_USAGE = /unsupported certificate purpose|without server and client|is not for client authentication/
  const strictRoot = makeIssuer('strict root', { extensions: [...CA_EXTENSIONS, codeSigning] })
  const nobody = makeIssuer('', { parent: root, subject: forge.NO_NAME })
  const good = makeIssuer('crossed twice', { parent: root })
  const forCode = makeIssuer('crossed twice', {
    parent: root,
    key: good.key,
    extensions: [...CA_EXTENSIONS, codeSigning],
  })
  const selfIssued = makeIssuer('tight', {
    parent: root,
    extensions: [forge.basicConstraints({ ca: true, pathLength: 0 }), CA_KEY_USAGE],
  })
  const renewedKey = makeIssuer('tight', { parent: selfIssued })
  const twoAlgorithms = makeIssuer('two algorithms', { algorithm: forge.ECDSA_SHA384.algorithm })
  return {
    'an intermediate for code signing': { ...belowMiddle([codeSigning]), refused: NO_USAGE },
    'an intermediate for server authentication alone': {
      ...belowMiddle([forge.extendedKeyUsage(forge.SERVER_AUTH)]),
      refused: NO_USAGE,
    },
    'an intermediate for any usage': { ...belowMiddle([any]), refused: NO_USAGE },
    'an intermediate for both kinds of authentication': belowMiddle([tls]),
    'a root for code signing': {
      chain: [leaf(strictRoot)],
      roots: [strictRoot.der],
      refused: NO_USAGE,
    },
    'the intermediate for code signing first, the good one behind': { chain: [leaf(good), forCode.der, good.der] },
    'the good one first, the intermediate for code signing behind': { chain: [leaf(good), good.der, forCode.der] },
    'a leaf that may encipher only': { ...usage(2), refused: /key usage lacks digitalSignature/ },
    'a leaf that may sign certificates': { ...usage(0, 5), refused: /key usage has keyCertSign or cRLSign/ },
    'a leaf that may sign revocation lists': { ...usage(0, 6), refused: /key usage has keyCertSign or cRLSign/ },
    'a leaf for signatures and key encipherment': usage(0, 2),
    'a leaf with an Ed25519 key': otherKey(generateKeyPairSync('ed25519').privateKey),
    'a leaf with an RSA-1024 key': otherKey(rsaKey(1024)),
    'a leaf on secp256k1': otherKey(ecKey('secp256k1')),
    'a path length without a CA': refusedByAddon(
      {
        chain: [leaf(root, withExtensions({ basicConstraints: forge.basicConstraints({ ca: false, pathLength: 0 }) }))],
      },
      /not a PEM certificate that can be relied on/,
    ),
    'an unknown critical extension above': refusedByAddon(
      belowMiddle([extension('1.2.3.4', Buffer.of(5, 0), { critical: true })]),
      /unhandled critical extension/,
    ),
    'constraints on policies': belowMiddle([extension('2.5.29.36', sequence(der(0x80, Buffer.of(0))))]),
    'a policy': belowMiddle([extension('2.5.29.32', sequence(sequence(forge.oid('1.2.3.4'))), { critical: true })]),
    'an issuer without a name': { chain: [leaf(nobody), nobody.der] },
    'an intermediate with the name of its issuer and another key, without key identifiers': refusedByAddon(
      { chain: [leaf(renewedKey), renewedKey.der, selfIssued.der] },
      /self signed certificate in certificate chain/,
    ),
    'a root that names two algorithms': { chain: [leaf(twoAlgorithms)], roots: [twoAlgorithms.der] },
  }
}

function otherKey(key: KeyObject): Case {
  const publicKey = forge.spki(key)
  return {
    chain: [leaf(root, { publicKey })],
    key: { publicKeyDer: publicKey },
    refused: /its key is not one that every TLS peer takes/,
  }
}
