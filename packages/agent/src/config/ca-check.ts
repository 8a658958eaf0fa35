/** What only the plugins can tell of the section `ca`: which of its values do not go together. */
import { type AgentKey, type ConfigOf, OptionError, type PluginOptions, scrub } from '@livery/core'
import { toWire } from '../plugin/wire-error.ts'
import type { Finding } from '../schema/config-error.ts'
import { childPath } from '../schema/document.ts'
import type { CASection } from './ca-section.ts'

/** The first thing that each plugin refuses, those of `members` too. */
export async function checkCASection(section: CASection, at = 'ca'): Promise<Finding[]> {
  const { plugin, options, credentials, members = [] } = section
  const config = options as ConfigOf<PluginOptions>
  const found = await Promise.all([
    findings(at, `The plugin ${plugin.name}`, () => plugin.check?.(config, keysBeside(section))),
    credentials &&
      findings(childPath(at, 'credentials'), `The source of credentials ${credentials.plugin.name}`, () =>
        credentials.plugin.check?.(credentials.options as ConfigOf<PluginOptions>),
      ),
    ...members.map((member, index) => checkCASection(member, childPath(`${at}.cas`, index))),
  ])
  return found.flatMap(each => each ?? [])
}

const AGENT_KEYS = ['rootCert', 'clientCertificate', 'tokenFile'] as const

function keysBeside(section: CASection): ReadonlySet<AgentKey> {
  const beside = new Set<AgentKey>(AGENT_KEYS.filter(key => section[key] !== undefined))
  if (section.credentials?.isGiven) beside.add('credentials')
  return beside
}

/** That of a module answers later, from its thread. */
async function findings(at: string, who: string, check: () => unknown): Promise<Finding[]> {
  try {
    await check()
    return []
  } catch (error) {
    if (error instanceof OptionError) return [{ path: childPath(at, scrub(error.option)), text: scrub(error) }]
    if (error instanceof TypeError) return [{ path: at, text: scrub(error) }]
    const text = `${who} failed to check its configuration: ${scrub(toWire(error).message)}. Mend it, or install a version that works.`
    return [{ path: at, text }]
  }
}
