/** The messages between the agent and the thread of a plugin: plain data, since nothing else can be cloned. */
import type {
  AgentKey,
  CACapabilities,
  CAChange,
  CertificateSigningRequest,
  Credential,
  CredentialRequest,
  IssuedCertificate,
  PluginKind,
  PluginLog,
  PluginNeed,
  PluginOptions,
  SpiffeId,
} from '@livery/core/plugin'
import type { Fault } from '../schema/fault.ts'

/** The user whose rights the process of a plugin has. */
export interface PluginUser {
  readonly uid: number
  readonly gid: number
}

/** A module that is to be loaded in a separate thread or process. */
export interface PluginModule {
  readonly kind: PluginKind
  /** As it is written in the configuration. */
  readonly specifier: string
  /** Absolute path of the file that names it, which need not be there. */
  readonly parent: string
  /** Present: it runs in a process of this user, in place of a thread. */
  readonly user?: PluginUser
}

/** A plugin as far as it is data. */
export interface Manifest {
  readonly name: string
  /** Of a CA plugin. */
  readonly capabilities?: CACapabilities
  readonly needs?: readonly PluginNeed[]
  /** Each `problem` is replaced by `true`: it has to be asked for. */
  readonly options: PluginOptions
  /** Whether it has a `check`. */
  readonly checks: boolean
}

export type Described =
  | { readonly kind: 'plugin'; readonly manifest: Manifest }
  /** Without the specifier, which precedes them: `is not found …`. */
  | { readonly kind: 'faults'; readonly faults: readonly Fault[] }

/** Asks an option what is wrong with a value. */
export interface Question {
  /** The names of the options on the way to it, with dots between. */
  readonly option: string
  readonly value: string
}

/** The settings that a plugin checks. */
export interface Section {
  readonly config: unknown
  readonly siblings: ReadonlySet<AgentKey>
}

/** The material of a client, or of a source of credentials. */
export interface Start {
  readonly config: unknown
  readonly trustDomain?: string
  /** For a source of credentials. */
  readonly tokenFile?: string
  /** Whether there are credentials without an identity's own, and what they are. */
  readonly credentials?: {
    readonly description: string
    readonly isConfigured: boolean
    readonly isPerIdentity: boolean
  }
  readonly hasTls: boolean
}

/** A certificate request without what cannot be cloned, which is asked for by its number. */
export interface WireRequest {
  readonly id: number
  readonly identity: SpiffeId
  readonly ttlSeconds: number
  readonly tokenFile?: string
  readonly connectWithinMs?: number
  readonly ticket?: { readonly stored?: string }
}

export interface WireTls {
  /** Grows when something has changed. */
  readonly version: number
  /** Absent if the version is the one that is known. */
  readonly material?: {
    readonly roots?: Uint8Array
    readonly clientCertificate?: { readonly certificate: Uint8Array; readonly key: Uint8Array }
  }
}

/** The methods that the thread answers. */
export type ThreadMethods = {
  describe(argument: null): Promise<Described>
  /** `null` where nothing is wrong. */
  problems(questions: readonly Question[]): Promise<readonly (string | null)[]>
  /** Rejects with what the plugin's `check` threw. */
  check(section: Section): Promise<void>
  /** Answers with the description of a source of credentials. */
  create(start: Start): Promise<string | null>
  issue(request: WireRequest, signal: AbortSignal): Promise<IssuedCertificate>
  trustBundle(argument: null, signal: AbortSignal): Promise<readonly string[]>
  getCredential(request: Omit<CredentialRequest, 'signal'>, signal: AbortSignal): Promise<Credential>
  close(argument: null): Promise<void>
  ping(argument: null): void
}

/** The methods that the agent answers. */
export type AgentMethods = {
  log(line: { readonly level: keyof PluginLog; readonly message: string }): void
  count(counted: { readonly name: string; readonly help: string; readonly count: number }): void
  csr(id: number): Promise<CertificateSigningRequest>
  store(ticket: { readonly id: number; readonly note: string | undefined }): Promise<void>
  credential(request: Omit<CredentialRequest, 'signal'>, signal: AbortSignal): Promise<Credential>
  tls(known: number): Promise<WireTls>
  change(change: CAChange): void
}

/** A copy in separate memory: cloning a slice would copy all of the pool that holds it, whatever is there. */
export function ownBytes(bytes: Uint8Array): Uint8Array {
  return Uint8Array.from(bytes)
}

/** The memory of the keys in an answer, each of which has its own: it is moved, since what is cloned leaves a copy. */
export function keysIn(answer: unknown): ArrayBuffer[] {
  const parts: readonly unknown[] = Array.isArray(answer) ? answer : [answer]
  return parts.flatMap(part => {
    const issued = hasMember(part, 'issued') ? part.issued : part
    const bytes = hasMember(issued, 'privateKey') ? issued.privateKey : undefined
    return bytes instanceof Uint8Array && bytes.buffer instanceof ArrayBuffer ? [bytes.buffer] : []
  })
}

function hasMember<K extends string>(value: unknown, name: K): value is Record<K, unknown> {
  return typeof value === 'object' && value !== null && name in value
}
