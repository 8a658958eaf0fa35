/** The contract of a CA plugin with third parties, stable under its `apiVersion`. */

import type { Clock } from '../time/clock.ts'
import type { CAClient } from './ca-client.ts'
import type { CredentialSource } from './credentials.ts'
import type { KeyType } from './key-generator.ts'
import type { KeyVault } from './key-vault.ts'
import type { ConfigOf, PluginOptions } from './plugin-options.ts'

/** Raised when a plugin written for the old interface would no longer work. */
export const CA_PLUGIN_API_VERSION = 1

/** The abilities of a CA: they switch the groups of the conformance kit, and say what the agent can expect. */
export interface CACapabilities {
  /**
   * How its roots are learned. `none`: only beside certificates. `poll`: its client has `trustBundle`. `push`: it has
   * `subscribe` too, which reports changes. A client has no `trustBundle` if its configuration names no roots of the trust
   * domain.
   */
  readonly roots: 'none' | 'poll' | 'push'
  /**
   * A root that is missing from its list is revoked: the agent stops trusting it, and replaces certificates under it at
   * once. Default: false. Then the CA only no longer signs under it; it stays trusted for a while, for peers that still
   * have certificates under it.
   */
  readonly revokesMissingRoots?: boolean
  /** The treatment of the lifetime asked for. `clamped`: cut to the CA's maximum. `ignored`: the CA has its own. */
  readonly ttl: 'honoured' | 'clamped' | 'ignored'
  /** Where the identity in the certificate comes from: the CSR, the caller's credentials, or the CA's configuration. */
  readonly san: 'csr' | 'caller' | 'config'
  /** Its certificates carry the DNS names that the CSR asks for. Default: false, and then none are asked for. */
  readonly dnsNames?: boolean
  /** The key types that it signs for, or brings. */
  readonly keyTypes: readonly KeyType[]
  /** It brings its own keys and never asks for the CSR. Default: false. */
  readonly bringsKey?: boolean
  /** A certificate may take minutes, waiting for somebody: it keeps a ticket. Default: false. */
  readonly asynchronous?: boolean
}

/** Parts that the agent sets up from its own keys and hands over in the context. */
export type PluginNeed =
  /** `rootCert`, `clientCertificate`, `tls`: {@link CAContext.tls}. */
  | 'tls'
  /** `tokenFile`, `credentials`: {@link CAContext.credentials}. */
  | 'credentials'
  /** `cas`, a list of CAs, each with its own plugin and keys: {@link CAContext.members}. Built-in plugins only. */
  | 'members'

/** The agent's keys that a section may have beside the plugin's own, and `dnsNames` if an identity has them. */
export type AgentKey = 'rootCert' | 'clientCertificate' | 'tokenFile' | 'credentials' | 'dnsNames'

/** Lines for the operator; never a key or a token. */
export interface PluginLog {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/** Counters of the plugin, shown as `livery_ca_plugin_<name>_total`. */
export interface PluginMetrics {
  /** `name` in snake_case without unit or `_total`; the same name gives the same counter. */
  counter(name: string, help: string): { add(count?: number): void }
}

/** A PEM certificate chain and its key, for a TLS client. */
export interface ClientCertificate {
  readonly certificate: Buffer
  readonly key: Buffer
}

/** The material for a TLS connection to the CA: its files, as they are now. */
export interface TlsMaterial {
  /** PEM; absent: the roots that come with Node.js. */
  readonly roots?: Buffer
  readonly clientCertificate?: ClientCertificate
  /** Key exchange groups, the preferred one first; absent: Node.js's default. */
  readonly groups?: readonly string[]
  /** Called with the group of each connection. Absent in a separate process. */
  readonly connected?: (group: string) => void
}

/** One of the CAs that a plugin stands in front of. */
export interface CAMember {
  /** A unique name for messages, stable across restarts: `citadel at istiod:15012`. */
  readonly name: string
  /** The agent closes it, after the client of the plugin that received it. */
  readonly client: CAClient
  readonly capabilities: CACapabilities
}

/** The agent's side of a plugin. */
export interface CAContext {
  readonly clock: Clock
  /** The trust domain of the agent. */
  readonly trustDomain: string
  readonly log: PluginLog
  readonly metrics: PluginMetrics
  /** Seals private keys that a plugin keeps. Absent in a separate process. */
  readonly vault?: KeyVault
  /** Absent if none are configured, or the plugin does not need them. */
  readonly credentials?: CredentialSource
  /**
   * Reads the files when asked; the same object while nothing has changed, so that a connection is replaced only when
   * it must be. Rejects with a `CAError` `unavailable` while a root is configured and was never readable.
   */
  readonly tls?: () => Promise<TlsMaterial>
  /** The members in configuration order, at least one; absent if the plugin does not need them. */
  readonly members?: readonly CAMember[]
  /** How often members that do not report their roots are asked for them, milliseconds. Default: five minutes. */
  readonly rootsPollMs?: number
}

/** A certificate authority that the agent can load. */
export interface CAPlugin<Options extends PluginOptions = PluginOptions> {
  readonly apiVersion: typeof CA_PLUGIN_API_VERSION
  /** The name in messages and metrics: lower case, digits and dashes. */
  readonly name: string
  readonly capabilities: CACapabilities
  /** Replaces `capabilities` in a plugin that needs `members`: its capabilities with these members. */
  readonly capabilitiesWith?: (members: readonly CACapabilities[]) => CACapabilities
  /** The keys under `ca:` beside `plugin` and the keys of `needs`. Another key is refused. */
  readonly options: Options
  readonly needs?: readonly PluginNeed[]
  /**
   * Checks what no option can check alone: throws an `OptionError` for values that do not go together. `siblings`: which
   * keys of the agent are set. Called when the configuration is read, by `check-config` and each reload too: it opens
   * nothing, reads nothing, and answers at once.
   */
  check?(config: ConfigOf<Options>, siblings: ReadonlySet<AgentKey>): void
  /**
   * A client for `config`, which `check` has let through. It may open connections later, and must not fail because the CA
   * is down. Throws a `TypeError` for what cannot be used where the agent runs; its message names the field and the remedy.
   */
  create(context: CAContext, config: ConfigOf<Options>): CAClient | Promise<CAClient>
}

/** `plugin` itself, with the types of its configuration worked out. */
export function defineCAPlugin<const Options extends PluginOptions>(plugin: CAPlugin<Options>): CAPlugin<Options> {
  return plugin
}
