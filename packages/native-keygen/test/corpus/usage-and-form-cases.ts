/** Leaves by their usages, serial numbers and form, and chains that are not lists of certificates. */
import * as forge from '../certificate-forge.ts'
import type { Case } from './case.ts'
import {
  CA_CONSTRAINTS,
  CA_KEY_USAGE,
  LEAF_EXTENSIONS,
  leaf,
  middle,
  root,
  withExtension,
  withExtensions,
} from './certificates.ts'

const { der, extension } = forge

export function usageAndFormCases(): Record<string, Case> {
  const good = leaf(root)
  const serial = (...bytes: readonly number[]) => ({ chain: [leaf(root, { serial: der(0x02, Buffer.from(bytes)) })] })
  return {
    'a good leaf': { chain: [good] },
    'a leaf with a subject': { chain: [leaf(root, { subject: forge.name('web') })] },
    'a leaf with an empty common name': { chain: [leaf(root, { subject: forge.name('') })] },
    'a leaf with a name in UCS-2': {
      chain: [leaf(root, { subject: forge.name(Buffer.from('web', 'utf16le').swap16(), 0x1e) })],
    },
    'a CA certificate': {
      chain: [leaf(root, withExtensions({ basicConstraints: CA_CONSTRAINTS, keyUsage: CA_KEY_USAGE }))],
      refused: /is a CA certificate/,
    },
    'a CA certificate that may not sign': {
      chain: [leaf(root, withExtensions({ basicConstraints: CA_CONSTRAINTS }))],
      refused: /is a CA certificate/,
    },
    'server authentication alone': {
      chain: [leaf(root, withExtensions({ extendedKeyUsage: forge.extendedKeyUsage(forge.SERVER_AUTH) }))],
      refused: /extended key usage lacks/,
    },
    'any extended key usage': {
      chain: [leaf(root, withExtensions({ extendedKeyUsage: forge.extendedKeyUsage('2.5.29.37.0') }))],
      refused: /extended key usage lacks/,
    },
    'no extended key usage': {
      chain: [leaf(root, { extensions: [LEAF_EXTENSIONS.subjectAltName] })],
    },
    'an unknown extension': {
      chain: [leaf(root, withExtension(extension('1.3.6.1.4.1.99999.1', Buffer.of(1, 2, 3))))],
    },
    'a small serial number': serial(1),
    'the serial number 0': serial(0),
    'a serial number with its top bit set': serial(0, 0xff, 1),
    'a negative serial number': serial(0x80, 1),
    'no certificate': { chain: [Buffer.from('junk')], refused: /element 0 of the chain is not a PEM certificate/ },
    'no certificate behind a leaf that needs one': {
      chain: [leaf(middle), Buffer.from([0x30, 0x00])],
      refused: /element 1 of the chain is not a PEM certificate/,
    },
    'no certificate behind a leaf that needs none': { chain: [good, Buffer.from([0x30, 0x00])] },
    'half a certificate': { chain: [good.subarray(0, good.length / 2)], refused: /element 0 of the chain/ },
    'no chain': { chain: [], refused: /the chain is empty/ },
    'too many certificates': { chain: Array<Buffer>(11).fill(good), refused: /11 certificates, more than 10/ },
    'too long a chain': { chain: [good, Buffer.alloc(60_000)], refused: /longer than 65536/ },
  }
}
