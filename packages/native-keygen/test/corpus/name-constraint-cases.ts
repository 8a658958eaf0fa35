/** Name constraints of an issuer, kept and broken (RFC 5280, section 4.2.1.10). */
import * as forge from '../certificate-forge.ts'
import { belowMiddle, type Case } from './case.ts'
import { CA_EXTENSIONS, identity, leaf, makeIssuer, withNames } from './certificates.ts'

const { der, sequence, extension } = forge

export function nameConstraintCases(): Record<string, Case> {
  const subtree = (tag: number, base: string | Buffer) => sequence(der(tag, base))
  const uriTree = (base: string) => subtree(0x86, base)
  const dnsTree = (base: string) => subtree(0x82, base)
  const constrain = (permitted: readonly Buffer[], excluded: readonly Buffer[] = [], critical = true) =>
    extension(
      '2.5.29.30',
      sequence(
        ...(permitted.length > 0 ? [der(0xa0, ...permitted)] : []),
        ...(excluded.length > 0 ? [der(0xa1, ...excluded)] : []),
      ),
      { critical },
    )
  const FORBIDDEN = /element 1 of the chain forbids a name of a certificate below it/
  const UNSUPPORTED = /element 1 of the chain has an extension that is malformed/
  const withDns = (name: string) => withNames(forge.uri(identity), forge.dns(name))
  const withIp = (...bytes: readonly number[]) => withNames(forge.uri(identity), der(0x87, Buffer.from(bytes)))
  const ten = subtree(0x87, Buffer.of(10, 0, 0, 0, 255, 0, 0, 0))
  const constrainedRoot = makeIssuer('constrained', {
    extensions: [...CA_EXTENSIONS, constrain([uriTree('example.com')])],
  })
  const many = Array.from({ length: 200 }, (_, index) => dnsTree(`a${index}.example`))
  const manyNames = withNames(
    forge.uri(identity),
    ...Array.from({ length: 200 }, (_, index) => forge.dns(`b${index}.example`)),
  )
  return {
    'its trust domain is permitted': belowMiddle([constrain([uriTree('cluster.local')])]),
    'its trust domain is permitted in capitals': belowMiddle([constrain([uriTree('CLUSTER.Local')])]),
    'the parent of its trust domain is permitted': belowMiddle([constrain([uriTree('.local')])]),
    'another trust domain is permitted': belowMiddle([constrain([uriTree('example.com')])], FORBIDDEN),
    'the same, not critical': belowMiddle([constrain([uriTree('example.com')], [], false)], FORBIDDEN),
    'a host above its trust domain is permitted, not those below': belowMiddle(
      [constrain([uriTree('local')])],
      FORBIDDEN,
    ),
    'its trust domain is excluded': belowMiddle([constrain([], [uriTree('cluster.local')])], FORBIDDEN),
    'a host above its trust domain is excluded': belowMiddle([constrain([], [uriTree('local')])], FORBIDDEN),
    'another trust domain is excluded': belowMiddle([constrain([], [uriTree('example.com')])]),
    'the root permits another trust domain': {
      chain: [leaf(constrainedRoot)],
      roots: [constrainedRoot.der],
      refused: /the root with serial [0-9a-f]+ forbids a name/,
    },
    'its DNS name is permitted': belowMiddle([constrain([dnsTree('svc')])], undefined, withDns('web.svc')),
    'its DNS name is not permitted': belowMiddle([constrain([dnsTree('com')])], FORBIDDEN, withDns('web.svc')),
    'its DNS name is excluded': belowMiddle([constrain([], [dnsTree('svc')])], FORBIDDEN, withDns('web.svc')),
    'a wildcard covers an excluded name': belowMiddle([constrain([], [dnsTree('a.svc')])], FORBIDDEN, withDns('*.svc')),
    'its common name is an excluded DNS name': belowMiddle([constrain([], [dnsTree('svc')])], FORBIDDEN, {
      subject: forge.name('web.svc'),
    }),
    'its address is permitted': belowMiddle([constrain([ten])], undefined, withIp(10, 1, 2, 3)),
    'its address is not permitted': belowMiddle([constrain([ten])], FORBIDDEN, withIp(11, 1, 2, 3)),
    'constraints on mail names, and none there': belowMiddle([constrain([subtree(0x81, 'example.com')])]),
    'constraints on mail names, and one there': belowMiddle(
      [constrain([subtree(0x81, 'example.com')])],
      FORBIDDEN,
      withNames(forge.uri(identity), der(0x81, 'web@example.com')),
    ),
    'constraints on directory names': belowMiddle([constrain([sequence(der(0xa4, forge.name('x')))])], UNSUPPORTED),
    'constraints that say nothing': belowMiddle([constrain([])], UNSUPPORTED),
    'more comparisons than are made': belowMiddle(
      [constrain(many)],
      /too many that share a name or constrain names/,
      manyNames,
    ),
  }
}
