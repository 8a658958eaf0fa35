/** Runs in a plugin's process: answers the agent with the client of a CA plugin, and asks the agent for its context. */
import {
  type CAClient,
  type CAContext,
  CAError,
  type CAPlugin,
  type CertificateRequest,
  type CertificateSigningRequest,
  type ConfigOf,
  type CredentialSource,
  type IssuedCertificate,
  MAX_ROOT_LENGTH,
  MAX_ROOTS,
  MAX_ROOTS_LENGTH,
  type PluginLog,
  type PluginOptions,
  SystemClock,
  type TlsMaterial,
} from '@livery/core/plugin'
import { checkCounterName } from '../observe/counter-name.ts'
import { LogRate } from '../observe/log-rate.ts'
import type { AgentMethods, PluginMethods, Start, WireRequest, WireTls } from './messages.ts'
import { ownBytes } from './messages.ts'
import type { Peer } from './two-way-calls.ts'
import { clip } from './wire-error.ts'

/** Core refuses a longer list too. */
const MAX_ELEMENTS = MAX_ROOTS + 1

/** One more line counts the rest, so that the sum is the agent's limit. */
const MAX_LINES = 49

type Agent = () => Peer<AgentMethods>

/** `create` makes the client, once; every other method is called after it. */
export function hostCA(
  load: () => Promise<CAPlugin>,
  agent: Agent,
): Pick<PluginMethods, 'create' | 'issue' | 'trustBundle' | 'close'> {
  const made = Promise.withResolvers<CAClient>()
  made.promise.catch(() => {}) // the agent has it as the answer to `create`
  return {
    async create(start) {
      try {
        const plugin = await load()
        const client = await plugin.create(contextOf(start, agent), start.config as ConfigOf<PluginOptions>)
        checkClient(client)
        client.subscribe?.(change => {
          const identities = change.kind === 'certificates' && change.identities ? [...change.identities] : undefined
          agent().notify('change', identities ? { kind: 'certificates', identities } : { kind: change.kind })
        })
        made.resolve(client)
        return null
      } catch (error) {
        made.reject(error)
        throw error
      }
    },
    async issue(request, signal) {
      const client = await made.promise
      return certificateOf(await client.issue(requestOf(request, signal, agent)))
    },
    async trustBundle(_, signal) {
      const client = await made.promise
      if (!client.trustBundle) throw new TypeError('its capabilities declare a trustBundle, and its client has none')
      const roots = await client.trustBundle({ signal })
      checkSize('a list of roots', roots, MAX_ROOTS_LENGTH)
      return roots
    },
    async close() {
      const client = await made.promise
      await client[Symbol.asyncDispose]()
    },
  }
}

/** The parts of the agent for every plugin in a process. */
export function logTo(agent: Agent): PluginLog {
  // Limited here too: a hundred thousand messages at once would keep the agent from everything else.
  const summarize = (_: string, suppressed: number, level: keyof PluginLog): void =>
    agent().notify('log', { level, message: `${suppressed} more lines of this level in 10 s` })
  const flood = new LogRate(new SystemClock(), summarize, MAX_LINES)
  const line = (level: keyof PluginLog) => (message: string) => {
    if (flood.allow(level, level)) agent().notify('log', { level, message: clip(message) })
  }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

function contextOf({ trustDomain = '', credentials, hasTls }: Start, agent: Agent): CAContext {
  return {
    clock: new SystemClock(),
    trustDomain,
    log: logTo(agent),
    metrics: {
      counter(name, help) {
        checkCounterName(name)
        return { add: (count = 1) => agent().notify('count', { name, help, count }) }
      },
    },
    ...(credentials && { credentials: remoteCredentials(credentials, agent) }),
    ...(hasTls && { tls: remoteTls(agent) }),
  }
}

function remoteCredentials(
  { description, isConfigured, isPerIdentity }: NonNullable<Start['credentials']>,
  agent: Agent,
): CredentialSource {
  return {
    description,
    isPerIdentity,
    isConfigured: ({ tokenFile }) => isConfigured || tokenFile !== undefined,
    get: ({ signal, ...request }) => agent().call('credential', request, signal),
  }
}

/** Returns the same object while the agent reports no change. */
function remoteTls(agent: Agent): () => Promise<TlsMaterial> {
  let known: { readonly version: number; readonly material: TlsMaterial } | undefined
  return async () => {
    const { version, material } = await agent().call('tls', known?.version ?? 0)
    if (material) known = { version, material: materialOf(material) }
    return known?.material ?? {}
  }
}

function materialOf({ roots, clientCertificate, groups }: NonNullable<WireTls['material']>): TlsMaterial {
  return {
    ...(roots && { roots: Buffer.from(roots) }),
    ...(groups && { groups }),
    ...(clientCertificate && {
      clientCertificate: {
        certificate: Buffer.from(clientCertificate.certificate),
        key: Buffer.from(clientCertificate.key),
      },
    }),
  }
}

function requestOf({ id, ticket, ...request }: WireRequest, signal: AbortSignal, agent: Agent): CertificateRequest {
  let csr: Promise<CertificateSigningRequest> | undefined
  return {
    ...request,
    signal,
    csr() {
      csr ??= agent().call('csr', id)
      return csr
    },
    ...(ticket && { ticket: { stored: ticket.stored, store: note => agent().call('store', { id, note }) } }),
  }
}

/** The known fields of the answer, without values that cannot be sent. Rejects an answer that is too large to send. */
function certificateOf(answer: IssuedCertificate): IssuedCertificate {
  if (typeof answer !== 'object' || answer === null) return answer
  const { chain, roots, rootsFor, privateKey, hint } = answer
  checkSize('a chain', chain, MAX_ROOT_LENGTH)
  checkSize('roots', roots, MAX_ROOTS_LENGTH)
  checkSize('a key', privateKey, MAX_ROOT_LENGTH)
  checkSize('a hint', hint, MAX_ROOT_LENGTH)
  return {
    chain,
    ...(roots !== undefined && { roots }),
    ...(rootsFor !== undefined && { rootsFor }),
    ...(hint !== undefined && { hint }),
    ...(privateKey !== undefined && { privateKey: takeKey(privateKey) }),
  }
}

/** The agent would copy all of it, between two answers to its callers. It refuses itself what is not a list of texts. */
function checkSize(what: string, value: unknown, maxLength: number): void {
  const elements: readonly unknown[] = Array.isArray(value) ? value : [value]
  const length = elements.reduce((sum: number, element) => sum + lengthOf(element), 0)
  if (elements.length <= MAX_ELEMENTS && length <= maxLength) return
  throw new CAError(
    'bad-response',
    `The CA plugin gave ${what} of ${elements.length} elements with ${length} characters in all, more than ${MAX_ELEMENTS} with ${maxLength}.`,
  )
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : 0
}

/** Copies the key and wipes the plugin's: the agent owns it, as it would without a process between. */
function takeKey(privateKey: Uint8Array): Uint8Array {
  const key = ownBytes(privateKey)
  // A plugin may answer anything.
  if (privateKey instanceof Uint8Array) privateKey.fill(0)
  return key
}

function checkClient(client: Partial<CAClient> | undefined): void {
  if (typeof client?.issue === 'function' && typeof client[Symbol.asyncDispose] === 'function') return
  throw new Error('its create() gave no client with issue and Symbol.asyncDispose')
}
