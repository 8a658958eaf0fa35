/** Name constraints of an issuer, kept and broken (RFC 5280, section 4.2.1.10). */
import * as forge from '../certificate-forge.ts'
import { belowMiddle, type Case, refusedByAddon } from './case.ts'
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
  const FORBIDDEN = /(?:permitted|excluded) subtree violation/
  const forbidden = (...answer: Parameters<typeof belowMiddle>) => refusedByAddon(belowMiddle(...answer), FORBIDDEN)
  const withDns = (name: string) => withNames(forge.uri(identity), forge.dns(name))
  const withIp = (...bytes: readonly number[]) => withNames(forge.uri(identity), der(0x87, Buffer.from(bytes)))
  const ten = subtree(0x87, Buffer.of(10, 0, 0, 0, 255, 0, 0, 0))
  const constrainedRoot = makeIssuer('constrained', {
    extensions: [...CA_EXTENSIONS, constrain([uriTree('example.com')])],
  })
  return {
    'its trust domain is permitted': belowMiddle([constrain([uriTree('cluster.local')])]),
    'its trust domain is permitted in capitals': belowMiddle([constrain([uriTree('CLUSTER.Local')])]),
    'the parent of its trust domain is permitted': belowMiddle([constrain([uriTree('.local')])]),
    'another trust domain is permitted': forbidden([constrain([uriTree('example.com')])]),
    'the same, not critical': forbidden([constrain([uriTree('example.com')], [], false)]),
    'a host above its trust domain is permitted, not those below': forbidden([constrain([uriTree('local')])]),
    'its trust domain is excluded': forbidden([constrain([], [uriTree('cluster.local')])]),
    'a host above its trust domain is excluded': belowMiddle([constrain([], [uriTree('local')])]),
    'another trust domain is excluded': belowMiddle([constrain([], [uriTree('example.com')])]),
    'the root permits another trust domain': refusedByAddon(
      { chain: [leaf(constrainedRoot)], roots: [constrainedRoot.der] },
      FORBIDDEN,
    ),
    'its DNS name is permitted': belowMiddle([constrain([dnsTree('svc')])], withDns('web.svc')),
    'its DNS name is not permitted': forbidden([constrain([dnsTree('com')])], withDns('web.svc')),
    'its DNS name is excluded': forbidden([constrain([], [dnsTree('svc')])], withDns('web.svc')),
    'a wildcard covers an excluded name': forbidden([constrain([], [dnsTree('a.svc')])], withDns('*.svc')),
    'its common name is an excluded DNS name': forbidden([constrain([], [dnsTree('svc')])], {
      subject: forge.name('web.svc'),
    }),
    'its address is permitted': belowMiddle([constrain([ten])], withIp(10, 1, 2, 3)),
    'its address is not permitted': forbidden([constrain([ten])], withIp(11, 1, 2, 3)),
    'constraints on mail names, and none there': belowMiddle([constrain([subtree(0x81, 'example.com')])]),
    'constraints on directory names': belowMiddle([constrain([sequence(der(0xa4, forge.name('x')))])]),
  }
}
