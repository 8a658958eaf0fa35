/** Leaves whose names are, or are not, the one identity that was asked for. */
import * as forge from '../certificate-forge.ts'
import type { Case } from './case.ts'
import { identity, LEAF_EXTENSIONS, leaf, root, withNames } from './certificates.ts'

const { der, sequence } = forge

const other = forge.uri('spiffe://cluster.local/ns/default/sa/other')
const UNREADABLE = /element 0 of the chain is not a PEM certificate that can be relied on/
const SAN_CHARACTERS = /hold characters that no SPIFFE ID has/

export function identityCases(): Record<string, Case> {
  const chain = (...names: readonly Buffer[]) => [leaf(root, withNames(...names))]
  const own = forge.uri(identity)
  const only = (...extensions: readonly Buffer[]) => [leaf(root, { extensions })]
  return {
    'another identity': { chain: chain(other), refused: /carries URI:.*other instead of/ },
    'two URI names': { chain: chain(own, other), refused: /carries 2 URI names/ },
    'the identity twice': { chain: chain(own, own), refused: /carries 2 URI names/ },
    'no URI name': { chain: chain(forge.dns('web.default.svc')), refused: /carries 0 URI names/ },
    'no name at all': { chain: chain(), refused: /carries 0 URI names/ },
    'no subject alternative name': { chain: only(LEAF_EXTENSIONS.keyUsage), refused: /carries 0 URI names/ },
    'an identity that goes on': { chain: chain(forge.uri(`${identity}/x`)), refused: /instead of the identity/ },
    'an identity in capitals': { chain: chain(forge.uri(identity.toUpperCase())), refused: /instead of the identity/ },
    'an identity with a port': {
      chain: chain(forge.uri(identity.replace('local', 'local:80'))),
      refused: /instead of the identity/,
    },
    'an identity that ends in NUL': { chain: chain(forge.uri(`${identity}\0`)), refused: SAN_CHARACTERS },
    'an identity, then a line': { chain: chain(forge.uri(`${identity}\n`)), refused: SAN_CHARACTERS },
    'a URI name that is empty': { chain: chain(forge.uri('')), refused: /carries URI: instead of/ },
    'a DNS name beside it': { chain: chain(forge.dns('web.default.svc'), own) },
    'a mail address beside it': { chain: chain(der(0x81, 'web@example.com'), own) },
    'an IP address beside it': { chain: chain(der(0x87, Buffer.of(10, 0, 0, 1)), own) },
    'a registered ID beside it': { chain: chain(der(0x88, Buffer.of(0x2a, 0x03)), own) },
    'a user principal name beside it': {
      chain: chain(der(0xa0, forge.oid('1.3.6.1.4.1.311.20.2.3'), der(0xa0, der(0x0c, 'web@example.com'))), own),
    },
    'the DNS names asked for, in another order and case': {
      chain: chain(forge.dns('*.B.example'), own, forge.dns('a.example')),
      dnsNames: ['a.example', '*.b.example'],
    },
    'a DNS name asked for that is missing': {
      chain: chain(own),
      dnsNames: ['a.example'],
      refused: /lacks the DNS name/,
    },
    'a DNS name that was not asked for': {
      chain: chain(own, forge.dns('a.example')),
      dnsNames: [],
      refused: /DNS:"a\.example", which was not asked for/,
    },
    'a DNS name that is the one asked for up to a NUL': {
      chain: chain(own, forge.dns('a.example\0.evil.example')),
      dnsNames: ['a.example'],
      refused: /lacks the DNS name/,
    },
    'a DNS name with a Kelvin sign for a k': {
      chain: chain(own, der(0x82, Buffer.from('\u212a.example'))),
      dnsNames: ['k.example'],
      refused: /lacks the DNS name/,
    },
    'a DNS name in parts': {
      chain: chain(own, der(0xa2, der(0x16, 'a.'), der(0x16, 'example'))),
      dnsNames: ['a.example'],
      refused: UNREADABLE,
    },
    'a DNS name whose length is longer than it has to be': {
      chain: chain(own, Buffer.concat([Buffer.of(0x82, 0x81, 9), Buffer.from('a.example')])),
      dnsNames: ['a.example'],
      refused: UNREADABLE,
    },
    'a mail address that was not asked for': {
      chain: chain(der(0x81, 'web@example.com'), own),
      dnsNames: [],
      refused: /1 names that are neither/,
    },
    'a directory name that was not asked for': {
      chain: chain(own, der(0xa4, sequence(...['a', 'b'].map(text => forge.name(text).subarray(2))))),
      dnsNames: [],
      refused: /1 names that are neither/,
    },
    'a DNS name that reads as two names': {
      chain: chain(forge.dns(`x, URI:${identity}`)),
      refused: /carries 0 URI names/,
    },
    'the same beside the real one': { chain: chain(own, forge.dns('x, URI:spiffe://a/b')) },
    'a DNS name that quotes': { chain: chain(own, forge.dns('x"y')) },
    'a principal name that reads as two names': {
      chain: chain(der(0xa0, forge.oid('1.3.6.1.4.1.311.20.2.3'), der(0xa0, der(0x0c, `x, URI:${identity}`)))),
      refused: /carries 0 URI names/,
    },
    'a directory name of two parts beside it': {
      chain: chain(own, der(0xa4, sequence(...['a', 'b'].map(text => forge.name(text).subarray(2))))),
    },
  }
}
