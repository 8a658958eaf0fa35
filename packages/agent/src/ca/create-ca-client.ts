/** Creates the CA client of the configuration: the plugin's client, with what the agent sets up for it. */
import type { KeyVault } from '@livery/core'
import type {
  CAClient,
  CAContext,
  CAMember,
  Clock,
  ConfigOf,
  CredentialSource,
  PluginLog,
  PluginOptions,
  WorkloadTokens,
} from '@livery/core/plugin'
import { rememberToken, scrub } from '@livery/core/plugin'
import type { CASection } from '../config/ca-section.ts'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import type { PluginCounters } from '../observe/plugin-counters.ts'
import { pluginLog } from '../observe/plugin-log.ts'
import { ConfigError } from '../schema/config-error.ts'
import { type ConfigNode, Location } from '../schema/config-tree.ts'
import { faultFrom } from '../schema/fault.ts'

/** The parts of the agent that a plugin gets. */
export interface PluginParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly counters: PluginCounters
  readonly vault?: KeyVault
  readonly workloadTokens?: WorkloadTokens | undefined
  /** How often the members of a list are asked for their roots. */
  readonly rootsPollMs?: number
  /** Called with the key exchange group of each connection to a CA. */
  readonly connected?: (group: string) => void
}

/** The part of the configuration that this needs. */
interface CAConfig {
  readonly config: Pick<Config, 'ca' | 'trustDomain'>
  readonly root: ConfigNode
}

/**
 * Rejects with a {@link ConfigError} for options that the plugin cannot use, or with the plugin's own error. Adds everything
 * that has to be closed to `stack`, the client included.
 */
export async function createCAClient(
  { config, root }: CAConfig,
  parts: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CAClient> {
  const { ca, trustDomain } = config
  return await new CAClientFactory(trustDomain, parts, stack).client(ca, new Location(root, ['ca']))
}

/** Makes the client of a section, and the clients of its nested sections. */
class CAClientFactory {
  readonly #trustDomain: string
  readonly #parts: PluginParts
  readonly #stack: AsyncDisposableStack

  constructor(trustDomain: string, parts: PluginParts, stack: AsyncDisposableStack) {
    this.#trustDomain = trustDomain
    this.#parts = parts
    this.#stack = stack
  }

  /** `at`: where the section is written. */
  async client(ca: CASection, at: Location): Promise<CAClient> {
    const context = await this.#context(ca, at)
    try {
      return this.#stack.use(await ca.plugin.create(context, ca.options as ConfigOf<PluginOptions>))
    } catch (error) {
      if (error instanceof TypeError) throw new ConfigError([at.problem(faultFrom(scrub(error)))])
      throw error
    }
  }

  async #context(ca: CASection, at: Location): Promise<CAContext> {
    const { clock, logger, counters, vault, rootsPollMs, connected } = this.#parts
    const log = pluginLog(logger, ca.plugin.name)
    const tls = await connectionOf(ca, { log, ...(connected && { connected }) })
    const credentials = await credentialsOf(ca, this.#parts, this.#stack)
    const members = ca.members && (await this.#members(ca.members, at))
    return {
      clock,
      trustDomain: this.#trustDomain,
      log,
      metrics: counters,
      ...(vault && { vault }),
      ...(tls && { tls }),
      ...(credentials && { credentials }),
      ...(members && { members }),
      ...(members && rootsPollMs !== undefined && { rootsPollMs }),
    }
  }

  async #members(sections: readonly CASection[], at: Location): Promise<readonly CAMember[]> {
    const members: CAMember[] = []
    for (const [index, section] of sections.entries()) {
      const name = describeCA(section)
      const same = members.filter(member => member.name === name).length
      const client = await this.client(section, at.child('cas', index))
      const { capabilities } = section.plugin
      members.push({ name: same === 0 ? name : `${name} (${index + 1})`, client, capabilities })
    }
    return members
  }
}

async function connectionOf(
  { plugin, rootCert, clientCertificate, tls }: CASection,
  parts: { readonly log: PluginLog; readonly connected?: (group: string) => void },
): Promise<CAContext['tls']> {
  if (!plugin.needs?.includes('tls')) return undefined
  const { connectionTls } = await import('@livery/ca-plugins/connection')
  return connectionTls({
    ...(rootCert !== undefined && { rootCert }),
    ...(clientCertificate && { clientCertificate }),
    ...tls,
    ...parts,
  })
}

async function credentialsOf(
  { credentials, tokenFile }: CASection,
  { clock, logger, workloadTokens }: PluginParts,
  stack: AsyncDisposableStack,
): Promise<CredentialSource | undefined> {
  if (!credentials) return undefined
  const { plugin, options } = credentials
  const context = {
    clock,
    log: pluginLog(logger, plugin.name),
    ...(tokenFile !== undefined && { tokenFile }),
    ...(workloadTokens && { workloadTokens }),
  }
  const source: CredentialSource & Partial<AsyncDisposable> = await plugin.create(
    context,
    options as ConfigOf<PluginOptions>,
  )
  // One from a module has a thread to end.
  stack.defer(async () => await source[Symbol.asyncDispose]?.())
  return remembering(source)
}

/** A CA may quote a token in any answer: no text shows one that was sent. */
function remembering(source: CredentialSource): CredentialSource {
  return {
    get description() {
      return source.description
    },
    isPerIdentity: source.isPerIdentity ?? false,
    ...(source.isConfigured && { isConfigured: request => source.isConfigured?.(request) ?? true }),
    async get(request) {
      const credential = await source.get(request)
      rememberToken(credential.token)
      return credential
    },
  }
}

/** The CA for the start line: the plugin and its identifying options. */
export function describeCA({ plugin, options, members }: CASection): string {
  if (members) return `${plugin.name}: ${members.map(describeCA).join(', ')}`
  const shown = Object.entries(plugin.options).flatMap(([name, option]) => {
    const isPublic = option.type === 'string' && option.required && !option.secret
    return isPublic ? [String(options[name])] : []
  })
  return shown.length === 0 ? plugin.name : `${plugin.name} at ${shown.join(', ')}`
}

/** Whether the CA signs each certificate on request: a source that brings keys gives earlier ones. */
export function signsNow({ plugin, members }: CASection): boolean {
  return members ? members.every(signsNow) : plugin.capabilities.bringsKey !== true
}
