/** Checks that the CA honours the certificate settings of the configuration. */
import { type CACapabilities, dnsNamesProblem } from '@livery/core/plugin'
import type { Problem } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import type { CASection } from './ca-section.ts'
import type { Settings } from './schema.ts'
import type { WishSetting } from './wish-schema.ts'

type WishSettings = Pick<Settings, 'identities' | 'kubernetes'>

export function wishesDnsNames({ identities, kubernetes }: WishSettings): boolean {
  return [...identities, kubernetes].some(wish => (wish?.dnsNames ?? []).length > 0)
}

/** `at` is the root. */
export function checkWishes(settings: WishSettings, ca: CASection, at: Location): readonly Problem[] {
  const { identities, kubernetes } = settings
  const signers = signersOf(ca, 'ca')
  const ofIdentities = identities.map((wish, index) => ({ wish, key: at.child('identities', index) }))
  const tooMany = ofIdentities.flatMap(({ wish: { dnsNames = [] }, key }) => {
    const problem = dnsNamesProblem(dnsNames)
    return problem === undefined ? [] : [key.child('dnsNames').problem(new Fault(problem, 'Write each name once'))]
  })
  const all = [...ofIdentities, { wish: kubernetes ?? {}, key: at.child('kubernetes') }]
  return [...tooMany, ...all.flatMap(({ wish, key }) => CHECKS.flatMap(check => unhonoured(check, wish, signers, key)))]
}

/** A CA that signs, and where it is configured. */
interface Signer {
  readonly name: string
  readonly capabilities: CACapabilities
}

function signersOf({ plugin, members }: CASection, where: string): readonly Signer[] {
  if (members) return members.flatMap((member, index) => signersOf(member, `${where}.cas[${index}]`))
  return [{ name: `the plugin ${plugin.name} of ${where}`, capabilities: plugin.capabilities }]
}

interface Check {
  readonly key: keyof WishSetting
  readonly fault: (
    wish: WishSetting,
    capabilities: CACapabilities,
  ) => readonly [reason: string, remedy: string] | undefined
}

const CHECKS: readonly Check[] = [
  {
    key: 'dnsNames',
    fault: ({ dnsNames = [] }, capabilities) =>
      dnsNames.length === 0 || capabilities.dnsNames
        ? undefined
        : ['gives no DNS names', 'Remove dnsNames, or use a CA that gives them'],
  },
  {
    key: 'ttl',
    fault: (wish, { ttl }) =>
      wish.ttl === undefined || ttl !== 'ignored' ? undefined : ['has its own lifetimes', 'Remove ttl'],
  },
  {
    key: 'keyType',
    fault: ({ keyType }, { keyTypes, bringsKey = false }) => {
      if (keyType === undefined || (!bringsKey && keyTypes.includes(keyType))) return undefined
      if (bringsKey) return ['brings its own keys', 'Remove keyType']
      return [`signs no ${keyType} keys`, `Write one of ${keyTypes.join(', ')}`]
    },
  },
]

/** One sentence per key, about the first CA that does not honour it. */
function unhonoured({ key, fault }: Check, wish: WishSetting, signers: readonly Signer[], at: Location): Problem[] {
  for (const { name, capabilities } of signers) {
    const found = fault(wish, capabilities)
    if (found) return [at.child(key).problem(new Fault(`is not available: ${name} ${found[0]}`, found[1]))]
  }
  return []
}
