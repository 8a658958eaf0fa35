/** A case of the corpus: a chain, and the refusal that every verifier has to give. */
import { X509Certificate } from 'node:crypto'
import type { Expectation } from '@livery/core'
import * as forge from '../certificate-forge.ts'
import { CA_EXTENSIONS, identity, leaf, leafKey, makeIssuer, now, type Overrides, root } from './certificates.ts'

export interface Case {
  readonly chain: readonly Buffer[]
  readonly roots?: readonly Buffer[]
  readonly key?: Expectation['key']
  /** The DNS names asked for; absent: whatever there is. */
  readonly dnsNames?: readonly string[]
  /** The reason of the refusal; absent: both verifiers accept. */
  readonly refused?: RegExp
  /** Whether only the addon looks at what is wrong: constraints, path lengths, critical extensions. */
  readonly byAddonAlone?: boolean
}

export function expectationOf({
  roots = [root.der],
  key,
  dnsNames,
}: Pick<Case, 'roots' | 'key' | 'dnsNames'>): Expectation {
  return {
    identity,
    ...(dnsNames && { dnsNames }),
    key: key ?? { publicKeyDer: forge.spki(leafKey) },
    anchors: roots.map(der => new X509Certificate(der)),
    now,
  }
}

/** The refusal of a chain without a path to a known root. */
export const NO_PATH = /does not lead to (?:the one known root|any of the \d known roots)/

/** A leaf below an intermediate with these extensions more. */
export function belowMiddle(extensions: readonly Buffer[], parts: Overrides = {}): Case {
  const issuer = makeIssuer('middle', { parent: root, extensions: [...CA_EXTENSIONS, ...extensions] })
  return { chain: [leaf(issuer, parts), issuer.der] }
}

/** A chain that the addon alone refuses. */
export function refusedByAddon(answer: Case, refused: RegExp): Case {
  return { ...answer, refused, byAddonAlone: true }
}
