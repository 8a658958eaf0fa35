/** Has the plugins check the section `ca`: only they know which of its values conflict. */
import { type AgentKey, type ConfigOf, OptionError, type PluginOptions, scrub } from '@livery/core/plugin'
import { toWire } from '../plugin/wire-error.ts'
import type { Problem } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { Fault, faultFrom } from '../schema/fault.ts'
import type { CASection } from './ca-section.ts'

/** The first problem that each plugin finds, `members` included. `wishesNames`: whether an identity has `dnsNames`. */
export async function checkCASection(section: CASection, at: Location, wishesNames: boolean): Promise<Problem[]> {
  const { plugin, options, credentials, members = [] } = section
  const config = options as ConfigOf<PluginOptions>
  const found = await Promise.all([
    problems(at, `The plugin ${plugin.name}`, () => plugin.check?.(config, keysBeside(section, wishesNames))),
    credentials &&
      problems(at.child('credentials'), `The source of credentials ${credentials.plugin.name}`, () =>
        credentials.plugin.check?.(credentials.options as ConfigOf<PluginOptions>),
      ),
    ...members.map((member, index) => checkCASection(member, at.child('cas', index), wishesNames)),
  ])
  return found.flatMap(each => each ?? [])
}

const AGENT_KEYS = ['rootCert', 'clientCertificate', 'tokenFile'] as const

function keysBeside(section: CASection, wishesNames: boolean): ReadonlySet<AgentKey> {
  const siblings = new Set<AgentKey>(AGENT_KEYS.filter(key => section[key] !== undefined))
  if (section.credentials?.isGiven) siblings.add('credentials')
  if (wishesNames) siblings.add('dnsNames')
  return siblings
}

/** A module checks on its thread, and answers later. */
async function problems(at: Location, who: string, check: () => unknown): Promise<Problem[]> {
  try {
    await check()
    return []
  } catch (error) {
    if (error instanceof OptionError) return [at.child(scrub(error.option)).problem(faultFrom(scrub(error)))]
    if (error instanceof TypeError) return [at.problem(faultFrom(scrub(error)))]
    const reason = `${who} failed to check its configuration: ${scrub(toWire(error).message)}`
    return [at.problem(new Fault(reason, 'Fix it, or install a version that works'))]
  }
}
