/** The messages between the agent and a plugin's process: plain data, and bytes. */
import type {
  AgentKey,
  CACapabilities,
  CAChange,
  CertificateRequest,
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

/** A module to load in a process. */
export interface PluginModule {
  readonly kind: PluginKind
  /** The name as the configuration writes it. */
  readonly specifier: string
  /** Absolute path of the file that names it, which need not exist. */
  readonly parent: string
  /** Absent: the user of the agent. */
  readonly user?: PluginUser
}

/** The part of a plugin that is data. */
export interface Manifest {
  readonly name: string
  /** Present for a CA plugin. */
  readonly capabilities?: CACapabilities
  readonly needs?: readonly PluginNeed[]
  /** `true` replaces each `problem`, which a call has to ask for. */
  readonly options: PluginOptions
  /** Whether it has a `check`. */
  readonly checks: boolean
}

type Described =
  | { readonly kind: 'plugin'; readonly manifest: Manifest }
  /** Texts without the specifier, which precedes them: `is not found …`. */
  | { readonly kind: 'faults'; readonly faults: readonly Fault[] }

/** Asks an option for the problem of a value. */
export interface Question {
  /** The path to the option, with dots between the names. */
  readonly option: string
  readonly value: string
}

/** The settings that a plugin checks. */
export interface Section {
  readonly config: unknown
  readonly siblings: ReadonlySet<AgentKey>
}

/** The configuration of a client, or of a source of credentials. */
export interface Start {
  readonly config: unknown
  readonly trustDomain?: string
  /** Set for a source of credentials. */
  readonly tokenFile?: string
  /** Present if there are credentials besides an identity's own; describes them. */
  readonly credentials?: {
    readonly description: string
    readonly isConfigured: boolean
    readonly isPerIdentity: boolean
  }
  readonly hasTls: boolean
}

/** A certificate request without its functions, which are called by its number. */
export interface WireRequest {
  readonly id: number
  readonly identity: SpiffeId
  readonly dnsNames?: readonly string[]
  readonly ttlSeconds: number
  readonly tokenFile?: string
  readonly connectWithinMs?: number
  readonly replaces?: NonNullable<CertificateRequest['replaces']>
  readonly ticket?: { readonly stored?: string }
}

export interface WireTls {
  /** Grows with each change. */
  readonly version: number
  /** Absent if the caller has this version. */
  readonly material?: {
    readonly roots?: Uint8Array
    readonly clientCertificate?: { readonly certificate: Uint8Array; readonly key: Uint8Array }
    readonly groups?: readonly string[]
  }
}

/** The methods that the plugin's process answers. */
export type PluginMethods = {
  describe(argument: null): Promise<Described>
  /** `null` if nothing is wrong. */
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

/** A separate copy, which `encodeFrame` can wipe. */
export function ownBytes(bytes: Uint8Array): Uint8Array {
  return Uint8Array.from(bytes)
}
