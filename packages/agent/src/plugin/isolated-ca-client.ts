/** The client of a CA plugin in a process: whatever the plugin does, a call ends, and the agent continues. */
import {
  type CACapabilities,
  type CAChange,
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  isSpiffeId,
  type PluginLog,
  rememberToken,
  scrub,
  type TlsMaterial,
} from '@livery/core/plugin'
import { type AgentMethods, ownBytes, type PluginModule, type WireRequest, type WireTls } from './messages.ts'
import { PluginSupervisor } from './plugin-supervisor.ts'
import { clip, fromWire, toWire, type WireError } from './wire-error.ts'

interface IsolatedPlugin {
  readonly module: PluginModule
  readonly name: string
  readonly capabilities: CACapabilities
}

/** Rejects with a `TypeError` if the plugin refuses its configuration. Other failures show in the calls, and heal. */
export async function createIsolatedCAClient(
  plugin: IsolatedPlugin,
  context: CAContext,
  config: unknown,
): Promise<CAClient> {
  const client = new IsolatedCAClient(plugin, context, config)
  await client.start()
  return client
}

class IsolatedCAClient implements CAClient {
  readonly trustBundle?: NonNullable<CAClient['trustBundle']>
  readonly subscribe?: NonNullable<CAClient['subscribe']>
  readonly #supervisor: PluginSupervisor
  readonly #open = new Map<number, CertificateRequest>()
  readonly #listeners = new Set<(change: CAChange) => void>()
  #nextId = 1

  constructor({ module, name, capabilities }: IsolatedPlugin, context: CAContext, config: unknown) {
    const { credentials, tls, trustDomain, clock } = context
    const log = logWithoutTokens(context.log)
    const own = credentials && {
      description: credentials.description,
      isConfigured: credentials.isConfigured?.({}) ?? true,
      isPerIdentity: credentials.isPerIdentity ?? false,
    }
    this.#supervisor = new PluginSupervisor({
      module,
      what: `The CA plugin ${name} (${module.specifier})`,
      start: { config, trustDomain, ...(own && { credentials: own }), hasTls: tls !== undefined },
      methods: this.#methods(context),
      clock,
      log,
      onRestart: () => this.#notifyAll(capabilities),
    })
    if (capabilities.roots !== 'none')
      this.trustBundle = ({ signal }) => hideTokens(this.#supervisor.call('trustBundle', null, signal), signal)
    if (capabilities.roots === 'push')
      this.subscribe = listener => {
        this.#listeners.add(listener)
        return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
      }
  }

  async start(): Promise<void> {
    await hideTokens(this.#supervisor.start())
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const wire = this.#register(request)
    try {
      return answerOf(await hideTokens(this.#supervisor.call('issue', wire, request.signal), request.signal))
    } finally {
      this.#open.delete(wire.id)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
    await this.#supervisor[Symbol.asyncDispose]()
  }

  /** Replaces what cannot be sent by a number. */
  #register(request: CertificateRequest): WireRequest {
    const { identity, dnsNames, ttlSeconds, tokenFile, connectWithinMs, replaces, ticket } = request
    const id = this.#nextId++
    this.#open.set(id, request)
    const { stored } = ticket ?? {}
    return {
      id,
      identity,
      ttlSeconds,
      ...(dnsNames && { dnsNames }),
      ...(tokenFile !== undefined && { tokenFile }),
      ...(connectWithinMs !== undefined && { connectWithinMs }),
      ...(replaces && { replaces }),
      ...(ticket && { ticket: stored === undefined ? {} : { stored } }),
    }
  }

  #requestOf(id: number): CertificateRequest {
    const request = this.#open.get(id)
    if (request) return request
    throw new Error('Cannot continue a request that has ended')
  }

  /** The agent reads the file with its own rights, so a plugin cannot choose it. */
  #checkTokenFile(tokenFile: string | undefined): void {
    if (tokenFile === undefined) return
    for (const request of this.#open.values()) if (request.tokenFile === tokenFile) return
    throw new CAError('denied', 'No open request has this token file. Pass on the tokenFile of the request.')
  }

  #methods({ metrics, credentials, tls }: CAContext): Omit<AgentMethods, 'log'> {
    return {
      count: ({ name, help, count }) => metrics.counter(name, help).add(count),
      csr: async id => {
        const { der, pem } = await this.#requestOf(id).csr()
        return { der: ownBytes(der), pem }
      },
      store: async ({ id, note }) => await this.#requestOf(id).ticket?.store(note),
      credential: async (request, signal) => {
        if (!credentials) throw new CAError('unauthenticated', 'There are no credentials. Set credentials under ca.')
        this.#checkTokenFile(request.tokenFile)
        const { token, expiresAt } = await credentials.get({ ...request, signal })
        rememberToken(token)
        return { token, ...(expiresAt !== undefined && { expiresAt }) }
      },
      tls: tellTls(tls ?? (async () => ({}))),
      change: change => this.#notify(change),
    }
  }

  #notify(change: CAChange): void {
    const checked: CAChange =
      change.kind === 'certificates' && change.identities
        ? { kind: 'certificates', identities: change.identities.filter(isSpiffeId) }
        : { kind: change.kind }
    for (const listener of [...this.#listeners]) listener(checked)
  }

  /** A change may have gone unreported while the plugin did not run. */
  #notifyAll({ bringsKey }: CACapabilities): void {
    this.#notify({ kind: 'roots' })
    if (bringsKey) this.#notify({ kind: 'certificates' })
  }
}

/** Replaces the error that the plugin threw by one that quotes no token. */
async function hideTokens<T>(answer: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await answer
  } catch (error) {
    signal?.throwIfAborted()
    throw withoutTokens(toWire(error))
  }
}

function withoutTokens(error: WireError): Error {
  const { message } = fromWire(error)
  return fromWire({ ...error, message: scrub(clip(message)) })
}

function logWithoutTokens(log: PluginLog): PluginLog {
  const line = (level: keyof PluginLog) => (message: string) => log[level](scrub(clip(message)))
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

/** Only the known fields of the plugin's answer. */
function answerOf(answer: IssuedCertificate): IssuedCertificate {
  if (typeof answer !== 'object' || answer === null) return answer
  const { chain, roots, rootsFor, privateKey, hint } = answer
  return {
    chain,
    ...(roots !== undefined && { roots }),
    ...(rootsFor !== undefined && { rootsFor }),
    ...(hint !== undefined && { hint }),
    ...(privateKey !== undefined && { privateKey }),
  }
}

function tellTls(tls: () => Promise<TlsMaterial>): (known: number) => Promise<WireTls> {
  let version = 0
  let last: TlsMaterial | undefined
  return async known => {
    const material = await tls()
    if (material !== last) version++
    last = material
    if (known === version) return { version }
    const { roots, clientCertificate: own, groups } = material
    return {
      version,
      material: {
        ...(roots && { roots: ownBytes(roots) }),
        ...(own && { clientCertificate: { certificate: ownBytes(own.certificate), key: ownBytes(own.key) } }),
        ...(groups && { groups }),
      },
    }
  }
}
