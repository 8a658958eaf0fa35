/** Chains that lead to a known root, and chains that do not (RFC 5280, section 6). */
import * as forge from '../certificate-forge.ts'
import { type Case, NO_PATH, refusedByAddon } from './case.ts'
import {
  CA_EXTENSIONS,
  HOUR,
  type Issuer,
  leaf,
  leafTbs,
  low,
  MINUTE,
  makeIssuer,
  middle,
  NO_POINT,
  now,
  root,
  validity,
  withExtension,
} from './certificates.ts'

const { der, sequence, extension } = forge

export function pathCases(): Record<string, Case> {
  const below = leaf(low)
  const stranger = makeIssuer('stranger')
  const namesake = makeIssuer('root')
  const expired = makeIssuer('middle', { parent: root, validity: validity(now - 2 * HOUR, now - HOUR) })
  const early = makeIssuer('middle', { parent: root, validity: validity(now + HOUR, now + 2 * HOUR) })
  const soon = makeIssuer('middle', { parent: root, validity: validity(now + 4 * MINUTE, now + HOUR) })
  const noCa = makeIssuer('middle', { parent: root, extensions: [forge.basicConstraints({ ca: false })] })
  const noConstraints = makeIssuer('middle', { parent: root, extensions: [forge.keyUsage(5)] })
  const noSigner = makeIssuer('middle', {
    parent: root,
    extensions: [forge.basicConstraints({ ca: true }), forge.keyUsage(0)],
  })
  const pointless = makeIssuer('middle', { parent: root, publicKey: NO_POINT })
  const limited = (pathLength: number, parent?: Issuer) =>
    makeIssuer('limited', { ...(parent && { parent }), extensions: [forge.basicConstraints({ ca: true, pathLength })] })
  const tight = limited(0, root)
  const underTight = makeIssuer('under tight', { parent: tight })
  const tightRoot = limited(0)
  const underTightRoot = makeIssuer('middle', { parent: tightRoot })
  const renewed = makeIssuer('limited', { parent: limited(1, root), subject: forge.name('limited') })
  // The same CA twice: certified by a stranger, and by the root.
  const crossed = makeIssuer('crossed', { parent: stranger })
  const crossedByRoot = makeIssuer('crossed', { parent: root, key: crossed.key })
  const expiredRoot = makeIssuer('root', { validity: validity(now - 2 * HOUR, now - HOUR) })
  const flipped = Buffer.from(leaf(root))
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1
  return {
    'one intermediate': { chain: [leaf(middle), middle.der] },
    'two intermediates': { chain: [below, low.der, middle.der] },
    'two intermediates in the wrong order': { chain: [below, middle.der, low.der] },
    'strangers, twins and the root among them': {
      chain: [below, stranger.der, middle.der, middle.der, root.der, low.der, low.der],
    },
    'the leaf itself among them': { chain: [below, below, low.der, middle.der] },
    'the root behind the leaf': { chain: [leaf(root), root.der] },
    'an intermediate missing': { chain: [below, middle.der], refused: NO_PATH },
    'an unknown root': { chain: [leaf(stranger), stranger.der], refused: NO_PATH },
    'no root known': { chain: [leaf(root)], roots: [], refused: /any of the 0 known roots/ },
    'another root of the same name': { chain: [leaf(namesake)], refused: NO_PATH },
    'two roots of the same name': { chain: [leaf(namesake)], roots: [root.der, namesake.der] },
    'an expired root': { chain: [leaf(expiredRoot)], roots: [expiredRoot.der], refused: NO_PATH },
    'an expired intermediate': { chain: [leaf(expired), expired.der], refused: NO_PATH },
    'an intermediate that is not valid yet': { chain: [leaf(early), early.der], refused: NO_PATH },
    'an intermediate that is valid in four minutes': { chain: [leaf(soon), soon.der] },
    'an intermediate that is not a CA': { chain: [leaf(noCa), noCa.der], refused: NO_PATH },
    'an intermediate without basic constraints': { chain: [leaf(noConstraints), noConstraints.der], refused: NO_PATH },
    'an intermediate that may not sign': { chain: [leaf(noSigner), noSigner.der], refused: NO_PATH },
    'an intermediate whose key is a point at infinity': { chain: [leaf(middle), pointless.der], refused: NO_PATH },
    'a path as long as allowed': { chain: [leaf(tight), tight.der] },
    'a path longer than allowed': refusedByAddon(
      { chain: [leaf(underTight), underTight.der, tight.der] },
      /path length constraint exceeded/,
    ),
    // The library does not look at the path length of a self-issued certificate; Go does.
    'a path longer than the root allows': { chain: [leaf(underTightRoot), underTightRoot.der], roots: [tightRoot.der] },
    'an unrelated CA that only shares the name': { chain: [leaf(renewed), renewed.der], refused: NO_PATH },
    'a cross certificate of a stranger first': { chain: [leaf(crossed), crossed.der, crossedByRoot.der, stranger.der] },
    'a cross certificate of the root first': { chain: [leaf(crossed), crossedByRoot.der, crossed.der, stranger.der] },
    'a signature with one bit changed': { chain: [flipped], refused: NO_PATH },
    'the signature of another': { chain: [forge.signed(leafTbs(root), stranger)], refused: NO_PATH },
    'the key identifier of another issuer': { ...keyIdentifierCase(Buffer.of(9, 9, 9)), refused: NO_PATH },
    'the key identifier of its issuer': keyIdentifierCase(Buffer.of(1, 2, 3)),
  }
}

function keyIdentifierCase(authority: Buffer): Case {
  const parent = makeIssuer('identified', {
    extensions: [...CA_EXTENSIONS, extension('2.5.29.14', der(0x04, Buffer.of(1, 2, 3)))],
  })
  const chain = [leaf(parent, withExtension(extension('2.5.29.35', sequence(der(0x80, authority)))))]
  return { chain, roots: [parent.der] }
}
