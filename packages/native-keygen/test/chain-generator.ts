/** Chains of certificates with some rule of RFC 5280 varied in some place: seeded, so that a chain can be made again. */
import type { KeyObject } from 'node:crypto'
import * as forge from './certificate-forge.ts'
import { ANYWHERE, type Draw, P256, type Plan, pick, type Role, VARIATIONS } from './chain-variations.ts'
import { LEAF_EXTENSIONS, leafKey, now, validity } from './corpus/certificates.ts'

const { der, sequence, extension } = forge
const HOUR = 3_600_000
const DAY = 24 * HOUR

export interface GeneratedChain {
  /** The variation, and its place. */
  readonly what: string
  /** Leaf first, the others shuffled. */
  readonly chain: readonly Buffer[]
  readonly roots: readonly Buffer[]
  /** The leaf's, SubjectPublicKeyInfo. */
  readonly publicKeyDer: Buffer
  /** Absent where the leaf has a public key without one. */
  readonly privateKey: KeyObject | undefined
}
/** mulberry32 (public domain). */
function seeded(seed: number): Draw {
  let state = seed
  return below => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below
  }
}
const identifierOf = (key: KeyObject) => forge.spki(key).subarray(-20)

/** A certificate that even `openssl verify -x509_strict` likes. */
function goodPlan(role: Role, index: number, key: KeyObject, below: boolean): Plan {
  const extensions = new Map<string, Buffer>(
    role === 'leaf'
      ? Object.entries(LEAF_EXTENSIONS)
      : [
          ['basicConstraints', forge.basicConstraints({ ca: true })],
          ['keyUsage', forge.keyUsage(5, 6)],
        ],
  )
  if (role !== 'leaf') extensions.set('subjectKey', extension('2.5.29.14', der(0x04, identifierOf(key))))
  const subject = role === 'leaf' ? forge.NO_NAME : forge.name(`CA ${index}`)
  const to = below ? now + DAY : now + 1_000 * DAY
  return { role, key, scheme: forge.ECDSA_SHA256, subject, from: now - HOUR, to, extensions }
}

function signPlan(plan: Plan, parent: Plan): Buffer {
  const signer = { subject: plan.issuer ?? parent.subject, key: parent.key, scheme: parent.scheme }
  const extensions = new Map(plan.extensions)
  const parentIdentifier = parent.extensions.get('subjectKey')
  if (plan !== parent && parentIdentifier && !extensions.has('identifiers')) {
    extensions.set('authorityKey', extension('2.5.29.35', sequence(der(0x80, parentIdentifier.subarray(-20)))))
  }
  const unformed = forge.tbsCertificate(
    {
      ...(plan.version && { version: plan.version }),
      ...(plan.serial && { serial: plan.serial }),
      ...(plan.algorithm && { algorithm: plan.algorithm }),
      validity: validity(plan.from, plan.to),
      subject: plan.subject,
      publicKey: Buffer.concat([plan.publicKey ?? forge.spki(plan.key), plan.identifiers ?? Buffer.alloc(0)]),
      extensions: [...extensions.values()],
    },
    signer,
  )
  const certificate = forge.signed(plan.form?.(unformed) ?? unformed, signer)
  return plan.whole?.(certificate) ?? certificate
}

/** A leaf, none to three intermediates and a root, with up to three variations; often with a second way to a root. */
export function generateChain(seed: number): GeneratedChain {
  const draw = seeded(seed)
  const intermediates = Math.floor(draw(4))
  const plans = [
    goodPlan('leaf', 0, leafKey, true),
    ...Array.from({ length: intermediates }, (_, index) =>
      goodPlan('intermediate', index + 2, P256[index + 1] ?? leafKey, false),
    ),
    goodPlan('root', 1, P256[0] ?? leafKey, false),
  ]
  const what: string[] = []
  for (let left = Math.floor(draw(3.5)); left > 0; left--) {
    const [plan, name] = [pick(draw, plans), pick(draw, VARIATIONS)]
    ANYWHERE[name]?.(plan, draw)
    what.push(`${name} of the ${plan.role}`)
  }
  const signed = plans.map((plan, index) => signPlan(plan, plans[index + 1] ?? plan))
  const [leaf = Buffer.alloc(0), ...above] = signed
  const roots = above.splice(-1)
  if (intermediates > 0 && draw(3) < 1) addSecondWay(plans, above, roots, draw, what)
  const [own] = plans
  return {
    what: what.join(', ') || 'nothing',
    chain: [leaf, ...shuffle(above, draw)],
    roots: shuffle(roots, draw),
    publicKeyDer: own?.publicKey ?? forge.spki(own?.key ?? leafKey),
    privateKey: own?.publicKey ? undefined : own?.key,
  }
}

/** One intermediate certified again, by a second root: another path, good or with a separate fault. */
function addSecondWay(plans: readonly Plan[], above: Buffer[], roots: Buffer[], draw: Draw, what: string[]): void {
  const second = goodPlan('root', 9, P256[5] ?? leafKey, false)
  const again = pick(draw, plans.slice(1, -1))
  const fresh = { ...goodPlan('intermediate', 0, again.key, false), scheme: again.scheme, subject: again.subject }
  if (draw(2) < 1) {
    const name = pick(draw, VARIATIONS)
    ANYWHERE[name]?.(fresh, draw)
    what.push(`${name} of a second way`)
  } else {
    what.push('a second way')
  }
  above.push(signPlan(fresh, second))
  roots.push(signPlan(second, second))
}

function shuffle<T>(list: readonly T[], draw: Draw): T[] {
  return list
    .map(value => [draw(1), value] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, value]) => value)
}
