/** Names of certificates, and constraints of names, as the generator of chains draws them. */
import * as forge from './certificate-forge.ts'
import { identity } from './corpus/certificates.ts'
import { type Draw, pick } from './variation.ts'

const { der, sequence, extension } = forge

const subtree = (tag: number, base: string | Buffer, ...range: readonly Buffer[]) => sequence(der(tag, base), ...range)
const network = (...bytes: readonly number[]) => Buffer.from(bytes)

const URI_BASES = [
  'cluster.local',
  '.cluster.local',
  '.local',
  'local',
  'example.com',
  '.example.com',
  'sub.cluster.local',
  'CLUSTER.local',
  '',
  '127.0.0.1',
  'clusterxlocal',
]
const DNS_BASES = [
  'svc',
  '.svc',
  'default.svc',
  'web.default.svc',
  '.web.default.svc',
  'example.com',
  '',
  'SVC',
  'ault.svc',
  '*.svc',
]
const IP_BASES = [
  network(10, 0, 0, 0, 255, 0, 0, 0),
  network(10, 0, 0, 1, 255, 255, 255, 255),
  network(192, 168, 0, 0, 255, 255, 0, 0),
  network(0, 0, 0, 0, 0, 0, 0, 0),
  network(10, 0, 0, 0, 255, 0, 255, 0),
  Buffer.alloc(32),
]
const EMAIL_BASES = ['example.com', '.example.com', 'web@example.com', 'other.com']

/** Any name constraints. */
export function nameConstraints(draw: Draw): Buffer {
  const one = () => {
    const range = draw(12) < 1 ? [der(0x80, Buffer.of(1))] : []
    const kind = draw(20)
    if (kind < 10) return subtree(0x86, pick(draw, URI_BASES), ...range)
    if (kind < 15) return subtree(0x82, pick(draw, DNS_BASES), ...range)
    if (kind < 17) return subtree(0x87, pick(draw, IP_BASES), ...range)
    if (kind < 18) return subtree(0x81, pick(draw, EMAIL_BASES), ...range)
    if (kind < 19) return sequence(der(0xa4, forge.name('x')))
    return subtree(0x88, Buffer.of(0x2a, 3))
  }
  const list = (tag: number) => der(tag, ...Array.from({ length: 1 + Math.floor(draw(2)) }, one))
  const shape = draw(20)
  const lists = shape < 8 ? [list(0xa0)] : shape < 15 ? [list(0xa1)] : shape < 19 ? [list(0xa0), list(0xa1)] : []
  return extension('2.5.29.30', sequence(...lists), { critical: draw(4) > 1 })
}

export const own = forge.uri(identity)
/** Names beside the identity of a leaf. */
export const LEAF_NAMES = [
  [own, forge.dns('web.default.svc')],
  [own, forge.dns('*.default.svc')],
  [own, forge.dns('web.example.com'), forge.dns('WEB.default.svc')],
  [own, der(0x87, network(10, 0, 0, 1))],
  [own, der(0x87, network(192, 168, 1, 1))],
  [own, der(0x87, Buffer.alloc(16, 1))],
  [own, der(0x87, Buffer.alloc(5, 1))],
  [own, der(0x81, 'web@example.com')],
  [own, forge.dns('web.default.svc.')],
  [own, forge.dns('a..b')],
  [own, der(0x88, Buffer.of(0x2a, 3))],
]
/** Names of a CA. */
export const CA_NAMES = [
  [forge.uri('spiffe://cluster.local')],
  [forge.uri('spiffe://other.local/x')],
  [forge.dns('ca.default.svc')],
  [der(0x87, network(10, 9, 9, 9))],
  [der(0x88, Buffer.of(0x2a, 3))],
  [forge.uri('http://[::1')],
  [forge.uri('spiffe://a..b/c')],
  [],
]
